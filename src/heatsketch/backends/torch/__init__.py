"""PyTorch: products on a GPU, by fused Triton kernels where the GPU supports them."""

from .backend import backend

__all__ = ["backend"]
