"""Affinities and graphs that try to break things, and the heat kernel as its formulas are written."""

from __future__ import annotations

import warnings
from typing import Any

import networkx as nx
import numpy as np
from hypothesis import strategies as st
from scipy import sparse
from scipy.linalg import eigh
from sklearn.exceptions import ConvergenceWarning

SCALES = (1e-320, 1e-300, 1e-150, 1e-20, 1.0, 3.0, 1e20, 1e150, 1e300, 5e307)
POWERS = (1e-3, 0.5, 1, 8, 8.5, 1e4)


def answer(call: Any) -> tuple[Any, str]:
    """What a call returns, or the sentence in which it refuses; warnings from below are failures."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "the trivial mode, a constant, is kept", UserWarning)
        try:
            return call(), ""
        except (TypeError, ValueError) as error:
            kind, refusal = type(error), str(error)
    assert kind in (TypeError, ValueError), f"{kind}: {refusal}"  # LinAlgError is a ValueError
    assert len(refusal) > 40, refusal
    return None, refusal


@st.composite
def affinities(draw: Any, least: int = 2, most: int = 9, spread: float = 3.0) -> Any:
    """Symmetric and non-negative: sparse or full, in parts, with and without self-loops, weights far apart."""
    n = draw(st.integers(least, most))
    size = draw(st.sampled_from([0.0, 1.0, spread]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    full, loops = draw(st.sampled_from([0.1, 0.3, 0.6, 1.0])), draw(st.sampled_from([0.0, 0.0, 0.5, 1.0]))
    kept = np.where(np.eye(n, dtype=bool), rng.random((n, n)) < loops, rng.random((n, n)) < full)
    weights = 10.0 ** (size * rng.uniform(-1, 1, (n, n)))
    W = np.triu(np.where(kept, weights, 0.0))
    return W + np.triu(W, 1).T


def in_units(W: Any, scale: float) -> Any:
    """The same in another unit; in a large one so that the largest entry is just that."""
    return W / (W.max() or 1.0) * scale if scale > 1 else W * scale


def dense_form(draw: Any, W: Any) -> Any:
    kind = draw(st.sampled_from(["C", "F", "strided", "flipped", "read-only", "list", "object", "longdouble", "big"]))
    n = len(W)
    if kind == "F":
        return np.asfortranarray(W)
    if kind == "strided":
        return np.kron(W, np.ones((2, 3)))[::2, ::3]
    if kind == "flipped":
        return W[::-1, ::-1].copy()[::-1, ::-1]
    if kind == "read-only":
        X = W.copy()
        X.flags.writeable = False
        return X
    if kind == "list":
        return W.tolist()
    kinds = {"object": object, "longdouble": np.longdouble, "big": ">f8"}
    return np.array(W, dtype=kinds.get(kind, np.float64)).reshape(n, n)


def sparse_form(draw: Any, W: Any) -> Any:
    """In any format, or in compressed rows with entries in pieces, in disorder, zero, of wide indices, read-only."""
    container = draw(st.sampled_from(["array", "matrix"]))
    if draw(st.booleans()):
        form = draw(st.sampled_from(["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]))
        return getattr(sparse, f"{form}_{container}")(W)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    i, j = np.nonzero(np.ones_like(W)) if draw(st.booleans()) else np.nonzero(W)
    values = W[i, j]
    if draw(st.booleans()):
        i, j, values = np.tile(i, 2), np.tile(j, 2), np.concatenate([0.25 * values, 0.75 * values])
    order = np.lexsort((rng.random(len(i)), i))
    integers = draw(st.sampled_from([np.int32, np.int64]))
    starts = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=len(W)))]).astype(integers)
    made = getattr(sparse, f"csr_{container}")((values[order], j[order].astype(integers), starts), shape=W.shape)
    if draw(st.booleans()):
        for part in (made.data, made.indices, made.indptr):
            part.flags.writeable = False
    return made


@st.composite
def in_a_form(draw: Any, W: Any) -> Any:
    return (dense_form if draw(st.booleans()) else sparse_form)(draw, W)


def contents(X: Any) -> list[Any]:
    """All that an input holds, to be compared with what it holds later."""
    if isinstance(X, nx.Graph):
        return [list(X.nodes(data=True)), [(a, b, dict(d)) for a, b, d in X.edges(data=True)], dict(X.graph)]
    if not sparse.issparse(X):
        return [np.array(X).tolist()]
    if X.format in ("csr", "csc", "bsr"):
        return [X.data.tolist(), X.indices.tolist(), X.indptr.tolist(), X.indices.dtype]
    coo = X.tocoo()
    return [coo.data.tolist(), coo.row.tolist(), coo.col.tolist()]


def completed(W: Any, diagonal: str) -> Any:
    """The affinity with its self-loops, in units of its largest entry."""
    K = W / W.max() if W.any() else W.copy()
    if diagonal == "zero":
        np.fill_diagonal(K, 0.0)
    if diagonal == "auto":
        loops = np.where(K.any(axis=1), K.sum(axis=1), 1.0)
        K[np.diag_indices(len(K))] += np.where(np.diagonal(K) == 0, loops, 0.0)
    return K


def formula(W: Any, normalization: str, alpha: float, diagonal: str) -> tuple[Any, Any, Any]:
    """S, its trivial vector u, and the row weights w, as the table of heatsketch.kernel.normalize has them."""
    K = completed(W, diagonal)
    q, n = K.sum(axis=1), len(K)
    if normalization in ("symmetric", "stochastic"):
        K = K / np.outer(q, q) ** alpha
        v = K.sum(axis=1)
        S, u = K / np.sqrt(np.outer(v, v)), np.sqrt(v / v.sum())
    else:
        m = np.ones(n) if normalization == "bistochastic" else q**-alpha
        s = (m * q) ** -0.5
        for _ in range(500):
            s = s / np.sqrt(s * (K @ (s * m)))
        r = s * np.sqrt(m)
        S, u = r[:, None] * K * r, np.sqrt(m / m.sum())
    return S, u, np.ones(n) if normalization in ("symmetric", "bistochastic") else 1.0 / u


def formula_distances(S: Any, w: Any, power: float) -> Any:
    """|row i - row j| of diag(w) S^t, through all eigenvectors, (N, N)."""
    values, vectors = eigh((S + S.T) / 2)
    signs = np.sign(values) ** (power % 2 if float(power).is_integer() else 1)
    rows = w[:, None] * ((vectors * (signs * np.abs(values) ** power)) @ vectors.T)
    return np.linalg.norm(rows[:, None] - rows[None], axis=2)
