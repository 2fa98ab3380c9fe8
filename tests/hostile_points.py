"""Points that nobody looked at, and a kernel made of them by the book, in extended precision."""

from __future__ import annotations

import warnings

import numpy as np
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from conftest import NORMALIZATIONS

LONG = np.longdouble
# What heatsketch says of its own accord, and users can act upon; nothing from below may be heard.
SCALES = st.sampled_from([-300, -163, -162, -161, -160, -158, -155, -154, -45, -40, 38, 145, 150, 152, 153, 154, 300]) | st.integers(-300, 300)
OWN_WARNINGS = (ConvergenceWarning, UserWarning)


def attempt(work):
    """What `work` gives, or None where it is refused in words; and what it was warned of, all in heatsketch's own."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = work()
        except (ValueError, TypeError) as error:
            assert not isinstance(error, np.linalg.LinAlgError), error
            assert len(str(error)) > 40, error  # a sentence, not a code
            found = None
    for warning in caught:
        assert warning.category in OWN_WARNINGS, warning
        assert len(str(warning.message)) > 40, warning
    return found, [warning.category for warning in caught]


@st.composite
def points(draw, least=2, most=14, scales=SCALES):
    """Points with ties, duplicates, far clusters and constant columns, of any dimension and scale."""
    n = draw(st.integers(least, most))
    d = draw(st.sampled_from([1, 2, 3, 5, 17, 40] + [20_000] * (n < 5)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = draw(st.sampled_from([_cloud, _lattice, _line, _clusters, _mixture, _specks]))(draw, rng, n, d)
    if draw(st.booleans()):
        X[rng.integers(n)] = X[rng.integers(n)]
    if draw(st.booleans()):
        X[:, rng.integers(d)] = draw(st.sampled_from([0.0, 1.0, -1e8]))
    exponent = draw(st.sampled_from([0, 0, 0]) | scales)
    with np.errstate(over="ignore", under="ignore"):
        X = (X * 10.0**exponent).astype(draw(st.sampled_from([np.float64, np.float64, np.float32])))
    return np.clip(X, np.finfo(X.dtype).min, np.finfo(X.dtype).max)


def _cloud(draw, rng, n, d):  # noqa: ARG001
    return rng.normal(size=(n, d))


def _lattice(draw, rng, n, d):  # noqa: ARG001
    return rng.integers(-2, 3, (n, d)).astype(float)


def _line(draw, rng, n, d):  # noqa: ARG001
    return rng.permutation(n)[:, None] * rng.normal(size=d)


def _clusters(draw, rng, n, d):
    """Two clusters, so far apart that the squares of distances within one are rounding in those between them."""
    far = 10.0 ** draw(st.sampled_from([2, 8, 15, 17, 150]))
    return rng.normal(size=(n, d)) + far * (rng.random(n) < 0.5)[:, None]


def _mixture(draw, rng, n, d):
    """Numbers of every size, by entries, rows or columns."""
    shape = draw(st.sampled_from([(n, d), (n, 1), (1, d)]))
    span = draw(st.sampled_from([3, 30, 150]))
    return rng.normal(size=(n, d)) * 10.0 ** rng.integers(-span, span, shape)


def _specks(draw, rng, n, d):
    """Differences that are a few units of the smallest number, beside ordinary ones."""
    X = 5e-324 * rng.integers(0, 5, (n, d))
    return X if draw(st.booleans()) else X + rng.integers(0, 2, (n, d))


@st.composite
def kernels(draw, rules=("auto", "median", "neighbor", "slope", "self-tuning")):
    """Options of a kernel; a bandwidth that is a number comes in units of the median squared distance."""
    options = {
        "normalization": draw(st.sampled_from(NORMALIZATIONS)),
        "alpha": draw(st.sampled_from([0.0, 0.5, 1.0])),
        "bandwidth": draw(st.sampled_from(rules) | st.sampled_from([1.0, 0.1, 1e-3, 1e3, 1e12])),
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


def in_units_of(X, options):
    """The options with their bandwidth in the unit of squared distances; None where there is no such unit."""
    epsilon = options["bandwidth"]
    if isinstance(epsilon, str):
        return options
    D2 = exact_squares(X)
    epsilon = LONG(epsilon) * np.median(D2[D2 > 0]) if D2.any() else LONG(epsilon)
    if not np.finfo(np.float64).smallest_subnormal <= epsilon <= np.finfo(np.float64).max:
        return {**options, "bandwidth": 1.0}
    return {**options, "bandwidth": float(epsilon)}


def exact_squares(X, Y=None):
    """Squared distances, (m, n), with a range that no float64 leaves."""
    X, Y = (np.asarray(Z, dtype=LONG) for Z in (X, X if Y is None else Y))
    D2 = np.array([((Y - x) ** 2).sum(axis=1) for x in X])
    return np.where(D2 < np.finfo(np.float64).smallest_subnormal / 2, LONG(0), D2)  # so near that they coincide


def affinity(X, epsilon, options):
    """The Gaussian kernel by the book, in extended precision."""
    D2 = exact_squares(X)
    K = np.exp(-D2 / bandwidths(D2, epsilon))
    k = options.get("n_neighbors")
    if k is not None and k < len(X) - 1:
        radii = kth_apart(D2, k)
        K[D2 > LONG(1 + 1e-8) * np.maximum(radii[:, None], radii)] = 0
    K[K < options.get("cutoff", 0)] = 0
    if options.get("diagonal") == "zero":
        K[D2 == 0] = 0
    return K


def bandwidths(D2, epsilon):
    """Epsilon of each pair."""
    scales = np.sqrt(np.asarray(epsilon, dtype=LONG))
    return scales[:, None] * scales if scales.ndim else scales**2


def kth_apart(D2, k):
    """Squared distance to the k-th point that does not coincide, or the farthest where there are fewer."""
    apart = np.sort(np.where(D2 > 0, D2, np.inf), axis=1)
    kth = apart[:, min(k, len(D2)) - 1]
    return np.where(np.isfinite(kth), kth, D2.max(axis=1))


def expected_kernel(K, A, normalization, alpha):
    """The heat kernel that belongs to an affinity; bistochastic ones by the scaling that A itself tells.

    ``A = diag(s) K diag(s)`` with unit row sums is unique, so that an A which is of this form and has these sums is right.
    """
    q = K.sum(axis=1) ** LONG(-alpha)
    if normalization in ("symmetric", "stochastic"):
        v = q * (K @ q)
        left, right = (q / np.sqrt(v), q / np.sqrt(v)) if normalization == "symmetric" else (q / v, q)
        return left[:, None] * K * right
    w = np.ones(len(K), LONG) if normalization == "bistochastic" else q
    # log s_i + log s_j is known for every pair; the mean over pairs of a point's best known partner tells s itself.
    s = _scaling(K, np.asarray(A, LONG) / w)
    return s[:, None] * K * (s * w)


def _scaling(K, A):
    """s with ``A_ij = s_i K_ij s_j``, from the diagonal where there is one, else by the damped iteration."""
    if (np.diagonal(K) > 0).all():
        return np.sqrt(np.diagonal(A) / np.diagonal(K))
    raise NotImplementedError
