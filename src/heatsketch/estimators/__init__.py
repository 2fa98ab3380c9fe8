"""What users fit: thin scikit-learn estimators over the heat kernel."""

from ._aligned import fit_aligned
from ._base import HeatEmbedding
from .diffusion_maps import DiffusionMaps
from .gaussian_process import GaussianProcessEmbedding
from .heat_sketch import HeatSketch

__all__ = ["ESTIMATORS", "METHODS", "DiffusionMaps", "GaussianProcessEmbedding", "HeatSketch", "fit_aligned"]

# By the names of their classes, and by the names that commands and other packages' users know.
ESTIMATORS: dict[str, type[HeatEmbedding]] = {
    kind.__name__: kind for kind in (DiffusionMaps, GaussianProcessEmbedding, HeatSketch)
}
METHODS: dict[str, type[HeatEmbedding]] = {
    "heatsketch": HeatSketch,
    "gaussian-process": GaussianProcessEmbedding,
    "diffusion-maps": DiffusionMaps,
}
