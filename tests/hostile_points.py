"""Points that nobody looked at, and kernels made of them by the book, in extended precision."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import heatsketch as hs
from conftest import NORMALIZATIONS

LONG = np.longdouble
if np.finfo(LONG).maxexp <= np.finfo(np.float64).maxexp:  # as on Windows, and on macOS with arm64
    pytest.skip("this machine has no numbers beyond float64 to compute references with", allow_module_level=True)
SMALLEST = float(np.finfo(np.float64).smallest_subnormal)
# What heatsketch says of its own accord, and users can act upon; nothing from below may be heard.
OWN_WARNINGS = (ConvergenceWarning, UserWarning)
# Powers of ten, with those at which squares underflow and overflow, and float32 does.
SCALES = st.sampled_from([-300, -163, -162, -161, -160, -155, -154, -45, -38, 38, 145, 152, 153, 154, 300])
POWERS = (1e-3, 0.5, 1, 2, 8, 8.5, 300, 10_000)


def attempt(work):
    """What `work` gives, or None where it is refused in words; and the categories of what heatsketch warned of."""
    found, refusal = None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = work()
        except (ValueError, TypeError) as error:
            refusal = error
    if refusal is not None:
        assert not isinstance(refusal, np.linalg.LinAlgError), refusal
        assert len(str(refusal)) > 40, refusal  # a sentence, not a code
    for warning in caught:
        assert warning.category in OWN_WARNINGS, warning
        assert len(str(warning.message)) > 40, warning
    return found, [warning.category for warning in caught]


@st.composite
def points(draw, least=2, most=14, scaled=True):
    """Points with ties, duplicates, far clusters and constant columns, of any dimension and scale."""
    n = draw(st.integers(least, most))
    d = draw(st.sampled_from([1, 2, 3, 5, 17, 40] + [20_000] * (n == 3)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = draw(st.sampled_from([_cloud, _lattice, _line, _clusters, _mixture, _specks]))(draw, rng, n, d)
    if draw(st.booleans()):
        X[rng.integers(n)] = X[rng.integers(n)]
    if draw(st.booleans()):
        X[:, rng.integers(d)] = draw(st.sampled_from([0.0, 1.0, -1e8]))
    exponent = draw(st.just(0) | SCALES | st.integers(-300, 300)) if scaled else 0
    with np.errstate(over="ignore", under="ignore"):
        X = (X * 10.0**exponent).astype(draw(st.sampled_from([np.float64, np.float64, np.float32])))
    return np.clip(X, np.finfo(X.dtype).min, np.finfo(X.dtype).max)


def _cloud(draw, rng, n, d):
    return rng.normal(size=(n, d))


def _lattice(draw, rng, n, d):
    return rng.integers(-2, 3, (n, d)).astype(float)


def _line(draw, rng, n, d):
    return rng.permutation(n)[:, None] * rng.normal(size=d)


def _clusters(draw, rng, n, d):
    """Two clusters, so far apart that squared distances within one are rounding in those between them."""
    far = 10.0 ** draw(st.sampled_from([2, 8, 15, 17, 150]))
    return rng.normal(size=(n, d)) + far * (rng.random(n) < 0.5)[:, None]


def _mixture(draw, rng, n, d):
    """Numbers of every size, by entries, rows or columns."""
    shape = draw(st.sampled_from([(n, d), (n, 1), (1, d)]))
    span = draw(st.sampled_from([3, 30, 150]))
    return rng.normal(size=(n, d)) * 10.0 ** rng.integers(-span, span, shape)


def _specks(draw, rng, n, d):
    """Differences that are a few units of the smallest number, alone or beside ordinary ones."""
    X = SMALLEST * rng.integers(0, 5, (n, d))
    return X if draw(st.booleans()) else X + rng.integers(0, 2, (n, d))


@st.composite
def kernels(draw):
    """Options of a kernel; a bandwidth that is a number comes in units of the median squared distance."""
    rules = ("auto", "median", "neighbor", "slope", "self-tuning")
    options = {
        "normalization": draw(st.sampled_from(NORMALIZATIONS)),
        "alpha": draw(st.sampled_from([0.0, 0.5, 1.0])),
        "bandwidth": draw(st.sampled_from(rules) | st.sampled_from([1.0, 0.1, 1e-3, 1e3, 1e12, 1e-300, 1e300])),
        "device": "cpu",
    }
    pairs = draw(st.sampled_from(["every", "neighbors", "cutoff"]))
    if pairs == "neighbors":
        options["n_neighbors"] = draw(st.integers(1, 20))
    elif pairs == "cutoff":
        options["cutoff"] = draw(st.sampled_from([1e-300, 1e-6, 0.5]))
    if draw(st.integers(0, 4)) == 0:
        options["diagonal"] = "zero"
    return options


@st.composite
def models(draw):
    """An embedding, not fitted, as its class and its parameters."""
    options = draw(kernels())
    options["n_components"] = draw(st.sampled_from([1, 2, 3, 20]))
    options["power"] = draw(st.sampled_from([*POWERS, "auto"]))
    kind = draw(st.sampled_from([hs.GaussianProcessEmbedding, hs.DiffusionMaps, hs.HeatSketch]))
    if kind is hs.GaussianProcessEmbedding:
        options["sketch"] = draw(st.sampled_from(["gaussian", "rademacher", "columns"]))
        options["trivial"] = draw(st.sampled_from(["auto", "keep", "drop"]))
        options["n_exact"] = draw(st.sampled_from([0, 0, 1, "auto"]))
    if kind is hs.HeatSketch:
        options |= {"n_rounds": 1, "n_steps": 2}
    if kind is not hs.DiffusionMaps:
        options["random_state"] = 0
    return kind, options


def in_units_of(X, options):
    """The options with their bandwidth in the unit of squared distances, or 1 where these are no numbers."""
    epsilon = options["bandwidth"]
    if isinstance(epsilon, str):
        return options
    D2 = exact_squares(X)
    epsilon = LONG(epsilon) * (np.median(D2[D2 > 0]) if D2.any() else 1)
    usable = SMALLEST <= epsilon <= np.finfo(np.float64).max
    return {**options, "bandwidth": float(epsilon) if usable else 1.0}


def fitted(X, model):
    """The model fitted to the points, or None where it is refused; and what was said."""
    kind, options = model
    return attempt(lambda: kind(**in_units_of(X, options)).fit(X))


def exact_squares(X, Y=None):
    """Squared distances, (m, n), in a range that no float64 leaves; 0 where float64 has no number for them."""
    D2 = _squares(X, X if Y is None else Y)
    return np.where(D2 < LONG(SMALLEST) / 2, LONG(0), D2)


def squares_underflow(X):
    """Whether float64 has no number of full precision for the squared distance of some points that differ."""
    D2 = _squares(X, X)
    return bool(((D2 > 0) & (D2 < np.finfo(np.float64).tiny)).any())


def _squares(X, Y):
    X, Y = (np.asarray(Z, dtype=LONG) for Z in (X, Y))
    return np.array([((Y - x) ** 2).sum(axis=1) for x in X])


def exponents(D2, here, epsilon):
    """``D2 / epsilon``, with the local scales of the rows where each point has its own."""
    epsilon = np.asarray(epsilon, dtype=LONG)
    return D2 / (np.sqrt(here)[:, None] * np.sqrt(epsilon) if epsilon.ndim else epsilon)


def kth_apart(D2, k):
    """Squared distance to the k-th point that does not coincide, or the farthest where there are fewer."""
    apart = np.sort(np.where(D2 > 0, D2, np.inf), axis=1)
    kth = apart[:, min(k, D2.shape[1]) - 1]
    return np.where(np.isfinite(kth), kth, D2.max(axis=1))


def kept_pairs(D2, radii, options, n):
    """Which pairs of a row and a column are kept as neighbours; `radii` are those of the columns."""
    k = options.get("n_neighbors")
    if k is None or k >= n - 1:
        return np.ones(D2.shape, dtype=bool)
    return D2 <= LONG(1 + 1e-8) * np.maximum(kth_apart(D2, k)[:, None], radii)


def affinity(X, epsilon, options):
    """The Gaussian kernel by the book."""
    D2 = exact_squares(X)
    K = np.exp(-exponents(D2, np.asarray(epsilon, dtype=LONG), epsilon))
    radii = kth_apart(D2, options.get("n_neighbors", 1))
    K = np.where(kept_pairs(D2, radii, options, len(X)) & (options.get("cutoff", 0) <= K), K, LONG(0))
    return np.where(D2 == 0, LONG(0), K) if options.get("diagonal") == "zero" else K


def expected_kernel(K, A, normalization, alpha):
    """The heat kernel that belongs to an affinity with a diagonal.

    ``A = diag(s) K diag(s w)`` with unit row sums is unique: an A that has these sums is right if it is of this form,
    with the s that its diagonal tells.
    """
    q = K.sum(axis=1) ** LONG(-alpha)
    if normalization in ("symmetric", "stochastic"):
        v = q * (K @ q)
        left, right = (q / np.sqrt(v), q / np.sqrt(v)) if normalization == "symmetric" else (q / v, q)
        return left[:, None] * K * right
    w = np.ones(len(K), LONG) if normalization == "bistochastic" else q
    s = np.sqrt(np.diagonal(A) / (np.diagonal(K) * w))
    return s[:, None] * K * (s * w)


def expected_rows(Q, X, A, epsilon, options):
    """Rows of the Markov matrix A at new points, (m, N), and how far rounding may have moved their exponents, (m,)."""
    D2 = exact_squares(Q, X)
    E = exponents(D2, kth_apart(D2, 7), epsilon)
    kept = kept_pairs(D2, kth_apart(exact_squares(X), options.get("n_neighbors", 1)), options, len(X))
    kept &= np.exp(-E) >= options.get("cutoff", 0)
    q = affinity(X, epsilon, options).sum(axis=1) ** LONG(-options["alpha"])
    w = q if options["normalization"] == "bistochastic-weighted" else np.ones(len(X), LONG)
    reference = q if options["normalization"] == "stochastic" else np.sqrt(np.diagonal(A) * w)
    lowest = np.where(kept, E, np.inf).min(axis=1)
    above = np.where(kept, np.where(np.isfinite(lowest), lowest, 0)[:, None] - E, -np.inf)
    K = np.exp(above) * reference
    # Differences of few features are exact, and products of many leave about nine digits.
    return K / K.sum(axis=1, keepdims=True), lowest * (1e-14 if X.shape[1] <= 16 else 1e-8)
