"""Products in the precision that they are written in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["full_precision"]


@contextmanager
def full_precision() -> Iterator[None]:
    """Products of float32 in float32, whatever faster and coarser arithmetic the user has allowed elsewhere."""
    # PyTorch has two settings for the same thing, and refuses to multiply where they contradict each other; the older
    # one cannot be read where the newer one allows more.
    try:
        allowed = torch.get_float32_matmul_precision()
    except RuntimeError:
        allowed = "highest"
    backends: tuple[Any, ...] = torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul", None)
    newer = [backend for backend in backends if hasattr(backend, "fp32_precision")]  # since PyTorch 2.9
    before = [backend.fp32_precision for backend in newer]
    try:
        if allowed != "highest":
            torch.set_float32_matmul_precision("highest")
        for backend in newer:
            backend.fp32_precision = "ieee"
        yield
    finally:
        if allowed != "highest":
            torch.set_float32_matmul_precision(allowed)
        for backend, precision in zip(newer, before, strict=True):
            backend.fp32_precision = precision
