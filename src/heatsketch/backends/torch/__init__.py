"""PyTorch: products on a GPU, by fused Triton kernels where it can; imported when a tensor or a device is met."""

from .backend import backend

__all__ = ["backend"]
