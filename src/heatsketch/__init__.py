"""Embeddings that are sketches of the heat kernel, ``Y = h(A) M``."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import datasets, reference, scanpy
    from ._version import __version__
    from .analysis.comparison import compare_kernels, global_diffusion_distance
    from .analysis.density import spectral_density
    from .analysis.distances import components_for, diffusion_distances, distance_interval
    from .analysis.distortion import bilipschitz_constant, measure_distortion
    from .analysis.geodesics import geodesic_distances
    from .analysis.power import multiscale
    from .analysis.processes import canonical_metric, gaussian_process, secant_products
    from .analysis.pseudotime import Pseudotime, pseudotime
    from .compare import EmbeddingComparison, compare_embeddings
    from .estimators import DiffusionMaps, GaussianProcessEmbedding, HeatSketch, fit_aligned
    from .io.models import load_model, save_model
    from .kernel.bandwidth import estimate_bandwidth
    from .kernel.build import heat_kernel
    from .kernel.operator import HeatKernel
    from .kernel.plan import Estimate, estimate
    from .linalg.filters import MultiscaleFilter
    from .plotting import plot_distortion, plot_embedding, plot_intervals, plot_spectrum
    from .report import write_report
    from .tables import TableEncoder

# Public names by module. Modules are imported when a name of theirs is first used, because scikit-learn alone takes
# over a second to import.
_MODULES = {
    "._version": ("__version__",),
    ".analysis.comparison": ("compare_kernels", "global_diffusion_distance"),
    ".analysis.density": ("spectral_density",),
    ".analysis.distances": ("components_for", "diffusion_distances", "distance_interval"),
    ".analysis.distortion": ("bilipschitz_constant", "measure_distortion"),
    ".analysis.geodesics": ("geodesic_distances",),
    ".analysis.power": ("multiscale",),
    ".analysis.processes": ("canonical_metric", "gaussian_process", "secant_products"),
    ".analysis.pseudotime": ("Pseudotime", "pseudotime"),
    ".compare": ("EmbeddingComparison", "compare_embeddings"),
    ".datasets": ("datasets",),
    ".estimators": ("DiffusionMaps", "GaussianProcessEmbedding", "HeatSketch", "fit_aligned"),
    ".io.models": ("load_model", "save_model"),
    ".kernel.bandwidth": ("estimate_bandwidth",),
    ".kernel.build": ("heat_kernel",),
    ".kernel.operator": ("HeatKernel",),
    ".kernel.plan": ("Estimate", "estimate"),
    ".linalg.filters": ("MultiscaleFilter",),
    ".plotting": ("plot_distortion", "plot_embedding", "plot_intervals", "plot_spectrum"),
    ".reference": ("reference",),
    ".report": ("write_report",),
    ".scanpy": ("scanpy",),
    ".tables": ("TableEncoder",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "DiffusionMaps",
    "EmbeddingComparison",
    "Estimate",
    "GaussianProcessEmbedding",
    "HeatKernel",
    "HeatSketch",
    "MultiscaleFilter",
    "Pseudotime",
    "TableEncoder",
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
    "fit_aligned",
    "gaussian_process",
    "geodesic_distances",
    "global_diffusion_distance",
    "heat_kernel",
    "load_model",
    "measure_distortion",
    "multiscale",
    "plot_distortion",
    "plot_embedding",
    "plot_intervals",
    "plot_spectrum",
    "pseudotime",
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
