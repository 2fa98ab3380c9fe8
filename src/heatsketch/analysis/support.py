"""Which neighbours in a picture are neighbours in truth, as far as an independent sketch can tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._utils.display import Facts, Shown
from .._utils.typing import FloatArray, IntArray
from ..linalg.metrics import magnitude
from ..neighbors.search import nearest_neighbors
from .reference_sketch import Witness

__all__ = ["NeighborSupport", "neighbor_support"]

# Neighbours in the picture may be so many times farther than true neighbours before they are called into question.
_SLACK = 2.0


@dataclass(frozen=True, repr=False)
class NeighborSupport(Shown):
    """Neighbours in an embedding, and whether the diffusion distance supports them.

    Attributes
    ----------
    indices : ndarray of int, shape (N, k)
        Each point's nearest neighbours in the embedding, nearest first.
    supported : ndarray of bool, shape (N, k)
        False where the two are, at the level of the interval, farther apart than twice the radius that holds k true
        neighbours of the point.
    level : float
    embedding : ndarray of shape (N, n_components)
    """

    indices: IntArray
    supported: NDArray[np.bool_]
    level: float
    embedding: FloatArray

    @property
    def share(self) -> FloatArray:
        """Share of each point's neighbours that are supported, shape (N,)."""
        share: FloatArray = self.supported.mean(axis=1)
        return share

    def __str__(self) -> str:
        bad = self.share < 0.5
        return (
            f"{1.0 - self.supported.mean():.1%} of the {self.indices.shape[1]} nearest neighbours in the embedding are "
            f"not supported by the diffusion distance (intervals at {self.level:g}); for {bad.sum()} of {len(bad)} "
            "points it is more than half."
        )

    def _facts(self) -> Facts:
        bad = self.share < 0.5
        return [
            ("neighbours of each point", str(self.indices.shape[1])),
            ("not supported", f"{1.0 - self.supported.mean():.1%}"),
            ("points with more than half not supported", f"{bad.sum():,} of {len(bad):,}"),
            ("level of the intervals", f"{self.level:g}"),
        ]

    def plot(self, ax: Any = None) -> Any:
        """Draw the embedding's first two columns, coloured by the share of supported neighbours."""
        from .._utils.drawing import draw_shares  # noqa: PLC0415

        return draw_shares(ax, self.embedding, self.share, "share of supported neighbours")


def neighbor_support(Y: FloatArray, witness: Witness, n_neighbors: int, level: float) -> NeighborSupport:
    """Compare the neighbours in an embedding with what a witness says of their distances.

    Parameters
    ----------
    Y : ndarray of shape (N, k)
    witness : Witness
        Independent of Y: distances that Y itself estimates are too small just where Y shows neighbours.
    n_neighbors : int
    level : float

    Returns
    -------
    support : NeighborSupport
    """
    n = len(Y)
    k = min(n_neighbors, n - 1)
    shown = nearest_neighbors(_contiguous(Y), k).indices.astype(np.int64)
    true = nearest_neighbors(_contiguous(witness.features), k).indices.astype(np.int64)
    # k points are certainly within the largest upper end.
    radius = witness.interval(_pairs(true), level)[1].reshape(n, k).max(axis=1)
    low = witness.interval(_pairs(shown), level)[0].reshape(n, k)
    return NeighborSupport(shown, low <= _SLACK * radius[:, None], level, Y)


def _contiguous(Y: FloatArray) -> FloatArray:
    found: FloatArray = np.ascontiguousarray(Y / magnitude(Y))
    return found


def _pairs(indices: IntArray) -> IntArray:
    """Each point with its neighbours, (N k, 2)."""
    n, k = indices.shape
    return np.column_stack([np.repeat(np.arange(n), k), indices.ravel()])
