r"""Neighbours that agree with known labels, so that the mixture separates classes.

If labels are known, of some points or all, the similarities P of :mod:`heatsketch.layout.descent` become::

    P'_ij = c_ij (P_ij + r R_ij),    c_ij = u_i . u_j,    u_i = F_i^6 / |F_i^6|,

normalised to the same sum. F are soft labels, (n, number of classes): the known labels C, each class with the sum 1,
spread along P as heat with sources [1]_, ``F = a D^-1 P F + (1 - a) C`` with the row sums D. So c is 1 for points that
agree, known or not, and 0 for points of different classes. R joins each point to a few random ones of the class that F
gives it; without it, a class of several clusters would stay several clusters.

References
----------
.. [1] Zhou, Bousquet, Lal, Weston, Schölkopf. "Learning with local and global consistency". NeurIPS, 2003.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from .._utils.array import to_numpy
from .._utils.chunks import chunks
from .._utils.memory import available_memory, size_in_words
from .._utils.typing import FloatArray, IntArray

__all__ = ["agreeing", "class_labels", "known_classes", "spread_labels"]

# a, and the number of steps: what is left of the error is a^steps.
_SPREAD, _STEPS = 0.9, 50
# Exponent of F.
_SHARP = 6
# Random points of the same class for each point, and r: their share of the attraction relative to that of neighbours.
_PARTNERS, _JOINED = 5, 0.5
# Memory for each point and class: F, C, u and their intermediate results in float32.
_BYTES = 20
_SEED = 0x1AB  # fixed, as for distances and starts: pictures of other seeds are nearly the same


def class_labels(y: Any, n_samples: int, fitted: Any = slice(None)) -> IntArray:
    """Labels of the samples that are fitted as integers, -1 if unknown; other y raise ValueError.

    The convention is that of scikit-learn's semi-supervised estimators.

    Examples
    --------
    >>> from heatsketch.layout.labels import class_labels
    >>> class_labels([3, -1, 5, -1], 4)
    array([ 3, -1,  5, -1])
    """
    if y is None:
        raise ValueError(
            "use_labels=True requires y to be passed, but the target y is None; call fit(X, y), or set "
            "use_labels=False."
        )
    values = to_numpy(y)
    if values.shape not in ((n_samples,), (n_samples, 1)):
        raise ValueError(f"y of shape {values.shape} was given for {n_samples} samples; give one label for each.")
    wrong = [value for value in values.ravel().tolist() if not _is_label(value)]
    if wrong:
        raise ValueError(
            f"{len(wrong)} of {n_samples} values of y are not labels, the first {wrong[0]!r}; encode the classes as 0, "
            "1, 2, ..., and unknown labels as -1."
        )
    labels: IntArray = values.ravel().astype(np.int64)[fitted]
    n_classes = len(np.unique(labels[labels >= 0]))
    if n_classes < 2:
        raise ValueError(
            f"y has labels of {n_classes} {'class' if n_classes == 1 else 'classes'}, without those that are -1 for "
            "unknown or have the weight 0; give labels of two classes or more, or set use_labels=False."
        )
    needed, available = _BYTES * n_samples * n_classes, available_memory()
    if needed > available:
        raise MemoryError(
            f"y has labels of {n_classes:,} classes, which take about {size_in_words(needed)} of memory for "
            f"{n_samples:,} samples, and {size_in_words(available)} are available; give fewer classes, or set "
            "use_labels=False."
        )
    return labels


def _is_label(value: Any) -> bool:
    return isinstance(value, Real) and -1 <= float(value) <= 2**53 and float(value) % 1 == 0


def known_classes(y: IntArray, places: IntArray, n: int) -> FloatArray:
    """Vertices with points of each class, (n, number of classes), each class with the sum 1.

    Copies of a point count once, as in the embedding.

    Parameters
    ----------
    y : ndarray of int, shape (N,)
        Classes of the points, -1 if unknown.
    places : ndarray of int, shape (N,)
        Vertex of each point; points that are given several times have the same.
    n : int
    """
    known = np.flatnonzero(y != -1)
    classes, code = np.unique(y[known], return_inverse=True)
    C = np.zeros((n, len(classes)), dtype=np.float32)
    C[places[known], code] = 1.0
    found: FloatArray = C / C.sum(axis=0)
    return found


def spread_labels(P: Any, C: FloatArray) -> FloatArray:
    """``F = a D^-1 P F + (1 - a) C``, (n, number of classes), by steps; 0 for points that no label reaches."""
    degree = np.asarray(P.sum(axis=1)).ravel()
    P = sparse.diags_array(_SPREAD / np.where(degree > 0, degree, 1.0), dtype=np.float32) @ P
    F = C
    for _ in range(_STEPS):
        F = P @ F + np.float32(1.0 - _SPREAD) * C
    return F


def agreeing(P: Any, C: FloatArray) -> Any:
    """P' for similarities P of neighbours, a csr_array of shape (n, n), and known classes C."""
    n, F = P.shape[0], spread_labels(P, C)
    most = F.max(axis=1)
    reached = most > 0
    u = (F / np.where(reached, most, 1.0)[:, None]) ** _SHARP
    u /= np.where(reached, np.sqrt(np.square(u).sum(axis=1)), 1.0)[:, None]
    rows = np.repeat(np.arange(n), np.diff(P.indptr))
    # Nothing is known about a point that no label reaches, as in a cluster without labels: it keeps its neighbours.
    agreed = np.where(reached[rows] & reached[P.indices], _agreement(u, rows, P.indices), np.float32(1.0))
    kept = sparse.csr_array((P.data * agreed, P.indices, P.indptr), shape=(n, n))
    i = np.repeat(np.flatnonzero(reached), _PARTNERS)
    j = _partners(F.argmax(axis=1), i, reached)
    i, j = i[i != j], j[i != j]
    weight = _agreement(u, i, j)
    weight *= 0.5 * _JOINED * kept.sum(dtype=np.float64) / max(float(weight.sum(dtype=np.float64)), 1e-30)
    ends = i.astype(P.indices.dtype), j.astype(P.indices.dtype)  # compiled loops are made for one type of indices
    joined = sparse.csr_array((weight, ends), shape=(n, n))
    found = sparse.csr_array(kept + joined + joined.T)
    found.eliminate_zeros()
    if not found.nnz:  # no neighbours, or none that agree
        return P
    found.data *= n / float(found.data.sum(dtype=np.float64))
    return found


def _agreement(u: FloatArray, i: IntArray, j: IntArray) -> FloatArray:
    """``u_i . u_j`` of pairs, in float32."""
    found = np.empty(len(i), dtype=np.float32)
    for some in chunks(len(i), u.shape[1]):
        found[some] = np.einsum("pc,pc->p", u[i[some]], u[j[some]])
    return found


def _partners(guess: IntArray, i: IntArray, reached: Any) -> IntArray:
    """For each point of i a random one with the same guess among those that are reached."""
    points = np.flatnonzero(reached)
    members = points[np.argsort(guess[points], kind="stable")]
    count = np.bincount(guess[points])
    first, draws = np.cumsum(count) - count, np.random.default_rng(_SEED).random(len(i))
    partners: IntArray = members[first[guess[i]] + (draws * count[guess[i]]).astype(np.int64)]
    return partners
