"""Embeddings that are sketches of the heat kernel, ``Y = A^t M``."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from . import datasets, reference, scanpy
    from .analysis.comparison import compare_kernels, global_diffusion_distance
    from .analysis.density import spectral_density
    from .analysis.distances import components_for, diffusion_distances, distance_interval
    from .analysis.distortion import bilipschitz_constant, measure_distortion
    from .analysis.processes import canonical_metric, gaussian_process, secant_products
    from .compare import EmbeddingComparison, compare_embeddings
    from .estimators import DiffusionMaps, GaussianProcessEmbedding, HeatSketch
    from .io.models import load_model, save_model
    from .kernel.bandwidth import estimate_bandwidth
    from .kernel.build import heat_kernel
    from .kernel.operator import HeatKernel
    from .kernel.plan import Estimate, estimate
    from .plotting import plot_distortion, plot_embedding, plot_intervals, plot_spectrum
    from .report import write_report

# Where each public name lives. Modules are imported when a name of theirs is first used, because scikit-learn alone
# takes over a second to import.
_HOMES = {
    "DiffusionMaps": ".estimators",
    "EmbeddingComparison": ".compare",
    "Estimate": ".kernel.plan",
    "GaussianProcessEmbedding": ".estimators",
    "HeatKernel": ".kernel.operator",
    "HeatSketch": ".estimators",
    "bilipschitz_constant": ".analysis.distortion",
    "canonical_metric": ".analysis.processes",
    "compare_embeddings": ".compare",
    "compare_kernels": ".analysis.comparison",
    "components_for": ".analysis.distances",
    "datasets": ".datasets",
    "diffusion_distances": ".analysis.distances",
    "distance_interval": ".analysis.distances",
    "estimate": ".kernel.plan",
    "estimate_bandwidth": ".kernel.bandwidth",
    "gaussian_process": ".analysis.processes",
    "global_diffusion_distance": ".analysis.comparison",
    "heat_kernel": ".kernel.build",
    "load_model": ".io.models",
    "measure_distortion": ".analysis.distortion",
    "plot_distortion": ".plotting",
    "plot_embedding": ".plotting",
    "plot_intervals": ".plotting",
    "plot_spectrum": ".plotting",
    "reference": ".reference",
    "save_model": ".io.models",
    "scanpy": ".scanpy",
    "secant_products": ".analysis.processes",
    "spectral_density": ".analysis.density",
    "write_report": ".report",
}

__all__ = [
    "DiffusionMaps",
    "EmbeddingComparison",
    "Estimate",
    "GaussianProcessEmbedding",
    "HeatKernel",
    "HeatSketch",
    "__version__",
    "bilipschitz_constant",
    "canonical_metric",
    "compare_embeddings",
    "compare_kernels",
    "components_for",
    "datasets",
    "diffusion_distances",
    "distance_interval",
    "estimate",
    "estimate_bandwidth",
    "gaussian_process",
    "global_diffusion_distance",
    "heat_kernel",
    "load_model",
    "measure_distortion",
    "plot_distortion",
    "plot_embedding",
    "plot_intervals",
    "plot_spectrum",
    "reference",
    "save_model",
    "scanpy",
    "secant_products",
    "spectral_density",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES[name]
    module = import_module(home, __name__)
    value = globals()[name] = module if home == f".{name}" else getattr(module, name)
    return value


def __dir__() -> list[str]:
    return list(__all__)
