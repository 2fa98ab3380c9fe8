"""What users fit: thin scikit-learn estimators over the heat kernel."""

from .diffusion_maps import DiffusionMaps
from .gaussian_process import GaussianProcessEmbedding
from .heat_sketch import HeatSketch

__all__ = ["DiffusionMaps", "GaussianProcessEmbedding", "HeatSketch"]
