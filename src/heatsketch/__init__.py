"""Embeddings that are sketches of the heat kernel, ``Y = A^t M``."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from . import datasets
    from .bandwidth import estimate_bandwidth
    from .comparison import compare_kernels, global_diffusion_distance
    from .costs import Estimate, estimate
    from .density import spectral_density
    from .distances import components_for, diffusion_distances, distance_interval
    from .distortion import bilipschitz_constant, measure_distortion
    from .embeddings import DiffusionMaps, GaussianProcessEmbedding, HeatSketch
    from .heat import HeatKernel, heat_kernel
    from .models import load_model, save_model
    from .processes import canonical_metric, gaussian_process, secant_products

# Where each public name lives. Modules are imported when a name of theirs is first used, because scikit-learn alone
# takes over a second to import.
_HOMES = {
    "DiffusionMaps": ".embeddings",
    "Estimate": ".costs",
    "GaussianProcessEmbedding": ".embeddings",
    "HeatKernel": ".heat",
    "HeatSketch": ".embeddings",
    "bilipschitz_constant": ".distortion",
    "canonical_metric": ".processes",
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
    "save_model": ".models",
    "secant_products": ".processes",
    "spectral_density": ".density",
}

__all__ = [
    "DiffusionMaps",
    "Estimate",
    "GaussianProcessEmbedding",
    "HeatKernel",
    "HeatSketch",
    "__version__",
    "bilipschitz_constant",
    "canonical_metric",
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
    "save_model",
    "secant_products",
    "spectral_density",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_HOMES[name], __name__)
    value = globals()[name] = module if name == "datasets" else getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
