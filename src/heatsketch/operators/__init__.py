"""Matrices one can only multiply by: shape, dtype and a product with a block of columns."""

from .base import Operator
from .composed import DeflatedOperator, ScaledOperator
from .dense import DenseOperator
from .sparse import SparseOperator

__all__ = [
    "DeflatedOperator",
    "DenseOperator",
    "Operator",
    "ScaledOperator",
    "SparseOperator",
]
