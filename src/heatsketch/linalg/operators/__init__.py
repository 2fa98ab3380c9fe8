"""Matrices one can only multiply by: shape, dtype and a product with a block of columns."""

from .base import DenseOperator, Operator
from .composed import ComposedOperator, DeflatedOperator, FoldedOperator, ScaledOperator
from .heat import HeatOperator
from .sparse import SparseOperator
from .tiled import TiledGaussianOperator

__all__ = [
    "ComposedOperator",
    "DeflatedOperator",
    "DenseOperator",
    "FoldedOperator",
    "HeatOperator",
    "Operator",
    "ScaledOperator",
    "SparseOperator",
    "TiledGaussianOperator",
]
