"""Embeddings that are sketches of the heat kernel, ``Y = A^t M``."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from . import datasets, scanpy
    from .bandwidth import estimate_bandwidth
    from .comparison import compare_kernels, global_diffusion_distance
    from .costs import Estimate, estimate
    from .density import spectral_density
    from .distances import components_for, diffusion_distances, distance_interval
    from .distortion import bilipschitz_constant, measure_distortion
    from .embeddings import DiffusionMaps, GaussianProcessEmbedding, HeatSketch
    from .heat import heat_kernel
    from .heat_operator import HeatKernel
    from .lineup import EmbeddingComparison, compare_embeddings
    from .models import load_model, save_model
    from .plotting import plot_distortion, plot_embedding, plot_intervals, plot_scales, plot_spectrum
    from .processes import canonical_metric, gaussian_process, secant_products
    from .reports import write_report

# Where each public name lives. Modules are imported when a name of theirs is first used, because scikit-learn alone
# takes over a second to import.
_HOMES = {
    "DiffusionMaps": ".embeddings",
    "EmbeddingComparison": ".lineup",
    "Estimate": ".costs",
    "GaussianProcessEmbedding": ".embeddings",
    "HeatKernel": ".heat_operator",
    "HeatSketch": ".embeddings",
    "bilipschitz_constant": ".distortion",
    "canonical_metric": ".processes",
    "compare_embeddings": ".lineup",
    "compare_kernels": ".comparison",
    "components_for": ".distances",
    "datasets": ".datasets",
    "diffusion_distances": ".distances",
    "distance_interval": ".distances",
    "estimate": ".costs",
    "estimate_bandwidth": ".bandwidth",
    "gaussian_process": ".processes",
    "global_diffusion_distance": ".comparison",
    "heat_kernel": ".heat",
    "load_model": ".models",
    "measure_distortion": ".distortion",
    "plot_distortion": ".plotting",
    "plot_embedding": ".plotting",
    "plot_intervals": ".plotting",
    "plot_scales": ".plotting",
    "plot_spectrum": ".plotting",
    "save_model": ".models",
    "scanpy": ".scanpy",
    "secant_products": ".processes",
    "spectral_density": ".density",
    "write_report": ".reports",
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
    "plot_scales",
    "plot_spectrum",
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
