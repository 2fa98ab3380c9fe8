"""Points as rows of a tensor: distances of pairs, least squares, and what pulls at pairs in an optimisation.

Differences are formed one by one and added up in float64, as compiled code on the CPU does, whatever the dtype of the
points. Nothing is scattered, so that sums have one order and results repeat.
"""

from __future__ import annotations

from typing import Any

import torch

from ..._utils.blocks import as_numpy, empty
from ..._utils.chunks import chunks
from ..._utils.devices import Device, is_tensor
from ..._utils.typing import FloatArray, IntArray

__all__ = ["PairDifferences", "combined", "condensed_distances", "distinct_rows", "normal_equations", "row_distances"]

# Entries of rows that are gathered at a time: some 200 MB with the temporaries.
_ENTRIES = 1 << 23
# Squared distances are larger than true ones by this: the logarithm of zero has no slope.
_LEAST = 1e-290


def row_distances(Z: Any, i: Any, j: Any) -> Any:
    """Distances between rows of Z, for given pairs, in float64.

    Parameters
    ----------
    Z : tensor of shape (N, d)
    i, j : tensors or ndarrays of int, shape (m,)

    Returns
    -------
    distances : tensor or ndarray of shape (m,), as `i` is
    """
    here = Device(str(Z.device))
    a, b = here.tensor(i), here.tensor(j)
    out = torch.empty(len(a), dtype=torch.float64, device=Z.device)
    for some in chunks(len(a), Z.shape[1], _ENTRIES):
        out[some] = _differences(Z, a[some], b[some]).square_().sum(1).sqrt_()
    return out if is_tensor(i) else as_numpy(out)


def _differences(Z: Any, i: Any, j: Any) -> Any:
    """``z_i - z_j`` in float64, shape (m, d)."""
    return Z.index_select(0, i).double().sub_(Z.index_select(0, j))


def condensed_distances(Z: Any) -> Any:
    """Distances of all pairs of rows, in the order of :func:`scipy.spatial.distance.pdist`, in float64."""
    return torch.pdist(Z.double())


def distinct_rows(Z: Any) -> Any:
    """Numbers of the rows of Z, (N, d), that equal none before them, in increasing order."""
    kinds, kind = torch.unique(Z, dim=0, return_inverse=True)
    numbers = torch.arange(len(Z), device=Z.device)
    first = torch.full((len(kinds),), len(Z), device=Z.device)
    return first.scatter_reduce_(0, kind, numbers, "amin").sort().values  # the least of integers, in whatever order


def combined(M: Any, W: FloatArray, dtype: Any) -> Any:
    """``M W``, (N, m) times (m, k), computed in float64 and given in a dtype of NumPy."""
    here = Device(str(M.device))
    right, out = here.tensor(W, "float64"), empty((len(M), W.shape[1]), dtype, here)
    for rows in chunks(len(M), M.shape[1], _ENTRIES):
        out[rows] = M[rows].double() @ right
    return out


def normal_equations(F: Any, target: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``C^T C`` and ``C^T T`` in float64 with C the centred rows of F, (N, m), and T the target, (N, k)."""
    mean = F.mean(0, dtype=torch.float64)
    wanted = Device(str(F.device)).tensor(target, "float64")
    gram = torch.zeros((F.shape[1], F.shape[1]), dtype=torch.float64, device=F.device)
    right = torch.zeros((F.shape[1], wanted.shape[1]), dtype=torch.float64, device=F.device)
    for rows in chunks(len(F), F.shape[1], _ENTRIES):
        some = F[rows].double().sub_(mean)
        gram += some.T @ some
        right += some.T @ wanted[rows]
    return as_numpy(gram), as_numpy(right)


class PairDifferences:
    """Pairs in play as the differences of their features, gathered once: embedded pairs are then one product.

    Parameters
    ----------
    features : tensor of shape (N, m)
    i, j : ndarrays of int, shape (p,)
    """

    def __init__(self, features: Any, i: IntArray, j: IntArray) -> None:
        self._here = here = Device(str(features.device))
        self._D = _differences(features, here.tensor(i), here.tensor(j))  # [p, m]

    def squares(self, W: FloatArray) -> FloatArray:
        """Squared distances of the pairs in the embedding by W, (m, k), shape (p,)."""
        self._Z = self._D @ self._here.tensor(W)  # [p, k]
        squares: FloatArray = as_numpy(self._Z.square().sum(1).add_(_LEAST))
        return squares

    def gradient(self, weights: FloatArray) -> FloatArray:
        """Half the gradient, by W, of the weighted sum of the squares that were asked for last, shape (m, k)."""
        by_pair = self._here.tensor(weights)[:, None] * self._Z
        gradient: FloatArray = as_numpy(self._D.T @ by_pair)
        return gradient
