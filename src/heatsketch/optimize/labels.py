r"""Neighbours that agree with known labels, so that the mixture separates classes.

If the labels of some points are known, the similarities P of :mod:`heatsketch.optimize.mixture` are replaced by::

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
from .._utils.typing import FloatArray, IntArray
from .._utils.warn import warn

__all__ = ["LEAST_UNKNOWN", "agreeing", "few_labels", "known_classes", "spread_labels"]

# Share of labels that are unknown, at least.
LEAST_UNKNOWN = 0.5
# a, and the number of steps: what is left of the error is a^steps.
_SPREAD, _STEPS = 0.9, 50
# Exponent of F.
_SHARP = 6
# Random points of the same class for each point, and r: their share of the attraction relative to that of neighbours.
_PARTNERS, _JOINED = 5, 0.5
_SEED = 0x1AB  # fixed, as for distances and starts: pictures of other seeds are nearly the same


def few_labels(y: Any, n_samples: int) -> tuple[IntArray | None, str]:
    """Labels of which some are known, or None and the reason why there are none to use.

    The convention is that of scikit-learn's semi-supervised estimators: integers, -1 if unknown. Other y are those of
    the last step of a pipeline: targets, names of classes, classes that are all known, or 1 and -1. As -1 may be a
    class there, few labels are known only if at least half are -1.

    Examples
    --------
    >>> from heatsketch.optimize.labels import few_labels
    >>> few_labels([3, -1, 5, -1], 4)
    (array([ 3, -1,  5, -1]), '')
    >>> few_labels([0, 1, 1, 0], 4)
    (None, 'all labels are known')
    """
    labels = _integers(y)
    if labels is None:
        words = np.ravel(to_numpy(y)).astype(str)
        if len(words) and np.isin(words, ["-1", "", "unknown"]).mean() >= LEAST_UNKNOWN:
            warn(
                "y is not used: its values are not integers. If labels are unknown, encode the known ones as 0, 1, 2, "
                "..., and the others as -1."
            )
        return None, "its values are not integers, one for each sample"
    if len(labels) != n_samples:
        raise ValueError(f"y was given with {len(labels)} labels for {n_samples} samples; give one for each.")
    unknown = float(np.mean(labels == -1)) if len(labels) else 0.0
    reasons = {
        "all labels are known": not unknown,
        "it has negative values other than -1": labels.min(initial=0) < -1,
        "fewer than two classes are known": len(np.unique(labels[labels != -1])) < 2,
    }
    for reason, holds in reasons.items():
        if holds:
            return None, reason
    if unknown < LEAST_UNKNOWN:
        warn(
            f"y is not used: {unknown:.0%} of its values are -1, which stands for unknown labels if at least half of "
            "the values are -1. If -1 is a class, encode the classes as 0, 1, 2, ...; if labels are unknown, set more "
            "of them to -1."
        )
        return None, "-1 may be a class"
    return labels, ""


def _integers(y: Any) -> IntArray | None:
    """A vector, or a column, of integers of any dtype; None for other y. Missing values raise ValueError."""
    values = to_numpy(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        return None
    if values.dtype.kind in "fO":
        missing = sum(value is None or value != value for value in values.tolist())  # noqa: PLR0124
        if missing:
            raise ValueError(f"y has {missing} missing values; give integers, and -1 for labels that are unknown.")
        if all(isinstance(value, Real) for value in values.tolist()):
            values = values.astype(np.float64)
    if values.dtype.kind not in "iuf" or not (np.abs(values) <= 2**53).all() or (values != np.round(values)).any():
        return None
    labels: IntArray = values.astype(np.int64)
    return labels


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
