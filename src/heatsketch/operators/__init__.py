"""Matrices one can only multiply by: shape, dtype and a product with a block of columns."""

from .base import Operator
from .composed import ComposedOperator, DeflatedOperator, ScaledOperator
from .dense import DenseOperator
from .sparse import SparseOperator

__all__ = [
    "ComposedOperator",
    "DeflatedOperator",
    "DenseOperator",
    "Operator",
    "ScaledOperator",
    "SparseOperator",
]
