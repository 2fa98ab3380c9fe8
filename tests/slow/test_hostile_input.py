"""Hostile input: a finite embedding, or an error of the right type that names the problem; input is not modified."""

from __future__ import annotations

import copy
import decimal
import fractions
import warnings

import igraph
import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import squareform
from sklearn.exceptions import ConvergenceWarning

import heatsketch as hs
from budget import cases
from conftest import NORMALIZATIONS

GP = hs.GaussianProcessEmbedding
PRECOMPUTED = {"affinity": "precomputed"}
EXPERT = ({}, {"n_neighbors": 3}, {"kernel_params": {"cutoff": 1e-6}}, {"kernel_params": {"diagonal": "zero"}})
OBJECTIVES = ("mixed", "neighbors", "log-stress", "bilipschitz")
POWERS = (1e-3, 0.5, 1, 8, 8.5, 300, 1e4)
SMALLEST = float(np.finfo(np.float64).smallest_subnormal)
seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)


def attempt(work):
    """The result, or None if the input is rejected; warnings and errors must be those of heatsketch."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = work()
        except (ValueError, TypeError) as error:
            assert not isinstance(error, np.linalg.LinAlgError), error  # noqa: PT017
            assert len(str(error)) > 40, error  # noqa: PT017
            found = None
    assert {w.category for w in caught} <= {ConvergenceWarning, UserWarning}, [str(w.message) for w in caught]
    return found


def pick(rng, values):
    return values[int(rng.integers(len(values)))]


# Tables.

X = np.random.default_rng(0).integers(0, 120, (9, 3)).astype(float)


def strided(Z):
    return np.repeat(np.repeat(Z, 2, axis=0), 3, axis=1)[::2, ::3]


def read_only(Z):
    Z = Z.copy()
    Z.flags.writeable = False
    return Z


def halves(Z):
    """Sparse rows in which every entry is stored in two halves, zeros included, with 64-bit indices."""
    n, d = Z.shape
    columns, starts = np.tile(np.arange(d), (n, 2)), 2 * d * np.arange(n + 1)
    return sparse.csr_array((np.hstack([Z, Z]).ravel() / 2, columns.ravel(), starts), shape=Z.shape)


FORMS = {
    "Fortran order": np.asfortranarray,
    "strided": strided,
    "reversed": lambda Z: np.ascontiguousarray(Z[::-1, ::-1])[::-1, ::-1],
    "read-only": read_only,
    "masked array without masked entries": lambda Z: np.ma.masked_array(Z, mask=np.zeros(Z.shape, dtype=bool)),
    "lists": lambda Z: Z.tolist(),
    "objects": lambda Z: Z.astype(object),
    "decimals": np.vectorize(decimal.Decimal, otypes=[object]),
    "sparse, unsummed": halves,
    "pandas": pd.DataFrame,
    "pandas Int64": lambda Z: pd.DataFrame(Z).astype("Int64"),
    "pandas sparse": lambda Z: pd.DataFrame(Z).astype(pd.SparseDtype("float64", 0.0)),
    "polars": pl.DataFrame,
}
FORMS |= {f"dtype {t}": lambda Z, t=t: Z.astype(t) for t in (*"deghilqBHILQUS", ">f4", ">f8", ">i2")}
FORMS |= {f"sparse {f}": lambda Z, f=f: sparse.coo_array(Z).asformat(f) for f in ("csr", "csc", "coo", "lil", "dok")}
MODELS = {
    "all pairs": GP(2, random_state=0, device="cpu"),
    "neighbours": hs.DiffusionMaps(1, n_neighbors=2, normalization="stochastic", device="cpu"),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("form", FORMS)
def test_form_of_a_table_does_not_matter(form, model):
    table, before = FORMS[form](X), FORMS[form](X)
    expected, found = (copy.deepcopy(MODELS[model]).fit(Z) for Z in (X, table))
    # Half precision is embedded in float32, as which this X has a relative error of 3e-5.
    tolerance = (1e-4 if form == "dtype e" else 1e-8) * np.abs(expected.embedding_).max()
    np.testing.assert_allclose(np.asarray(found.embedding_), expected.embedding_, atol=tolerance)
    np.testing.assert_allclose(np.asarray(found.transform(table)), expected.transform(X), atol=tolerance)
    assert repr(table) == repr(before)


def with_entry(value, dtype=object):
    Z = X.astype(dtype)
    Z[2, 1] = value
    return Z


INVALID = {
    "masked entries": (np.ma.masked_greater(X, 50.0), ValueError, "masked"),
    "complex": (X * 1j, ValueError, "Complex"),
    "sparse complex": (sparse.csr_array(X * 1j), ValueError, "Complex"),
    "complex column": (pd.DataFrame({"a": [1j, 2, 3]}), ValueError, "Complex"),
    "complex object": (with_entry(1j), TypeError, "complex"),
    "dict object": (with_entry({}), TypeError, "dict"),
    "date object": (with_entry(pd.Timestamp("2020")), TypeError, "Timestamp"),
    "pandas.NA": (with_entry(pd.NA), TypeError, "NAType"),
    "None object": (with_entry(None), ValueError, "NaN"),
    "NaN": (with_entry(np.nan, float), ValueError, "NaN"),
    "infinity": (with_entry(-np.inf, float), ValueError, "infinity"),
    "huge integer": (with_entry(10**400), OverflowError, "large"),
    "beyond float64": (X.astype("g") * np.longdouble("1e4000"), ValueError, "infinity|zero"),
    "overflow": (1e200 * X, ValueError, "overflow"),
    "strings": (np.array([["a", "b"]] * 5, dtype=object), ValueError, "convert"),
    "timedeltas": (X.astype("m8[D]"), ValueError, "dates"),
    "ragged": ([[1, 2], [3], [4, 5]], ValueError, "shape"),
    "np.matrix": (X.view(np.matrix), TypeError, "np.matrix"),
    "missing integer": (pd.DataFrame({"a": pd.array([1, None, 3], "Int64")}), ValueError, "NaN"),
    "missing in polars": (pl.DataFrame({"a": [1, None, 3]}), ValueError, "NaN"),
    "strings in polars": (pl.DataFrame({"a": ["x", "y"]}), ValueError, "encode"),
    "series": (pd.Series(X[:, 0]), ValueError, "single"),
    "None": (None, ValueError, "2D"),
    "number": (3.0, ValueError, "2D"),
    "path": ("points.csv", ValueError, "points.csv"),
    "dict": ({"a": [1, 2]}, TypeError, "dict"),
    "generator": ((row for row in X), TypeError, "generator"),
    "function": (len, TypeError, "function"),
    "no rows": (sparse.csr_array((0, 3)), ValueError, "0 sample"),
    "only zeros": (sparse.csr_array((5, 3)), ValueError, "zero"),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_table(name):
    data, kind, word = INVALID[name]
    for read in (GP(2, device="cpu").fit, hs.heat_kernel, hs.estimate_bandwidth):
        with pytest.raises(kind, match=word):
            read(data)


@pytest.mark.parametrize("name", ["masked entries", "overflow", "None", "generator"])
def test_invalid_new_points(name):
    data, kind, word = INVALID[name]
    with pytest.raises(kind, match=word):
        GP(2, random_state=0, device="cpu").fit(X).transform(data)


# Points of any scale.

POINTS = {
    "cloud": lambda rng, n, d: rng.normal(size=(n, d)),
    "lattice": lambda rng, n, d: rng.integers(-2, 3, (n, d)).astype(float),
    "line": lambda rng, n, d: rng.permutation(n)[:, None] * rng.normal(size=d),
    "distant clusters": lambda rng, n, d: (
        rng.normal(size=(n, d)) + 10.0 ** pick(rng, [2, 8, 17, 150]) * (rng.random(n) < 0.5)[:, None]
    ),
    "numbers of every size": lambda rng, n, d: rng.normal(size=(n, d)) * 10.0 ** rng.integers(-150, 150, (n, d)),
    "subnormal differences": lambda rng, n, d: SMALLEST * rng.integers(0, 5, (n, d)) + rng.integers(0, 2, (n, d)),
}


def hostile_points(name, rng):
    n, d = int(rng.integers(2, 16)), pick(rng, [1, 2, 5, 40])
    Z = POINTS[name](rng, n, d)
    Z[rng.integers(n)] = Z[rng.integers(n)]
    with np.errstate(over="ignore", under="ignore"):
        Z = (Z * 10.0 ** pick(rng, [0, 0, 0, -300, -162, -154, -45, 38, 140, 153, 300])).astype(
            pick(rng, ["f8", "f8", "f4"])
        )
    return np.clip(Z, np.finfo(Z.dtype).min, np.finfo(Z.dtype).max)


def random_model(rng):
    options = {
        "n_components": pick(rng, [1, 2, 2, 20]),
        "normalization": pick(rng, NORMALIZATIONS),
        "bandwidth": pick(rng, ["auto", "auto", "median", "slope", "self-tuning", 1.0, 1e-300, 1e300]),
        "power": pick(rng, [*POWERS, "auto"]),
        "device": "cpu",
    } | pick(rng, EXPERT)
    kind = pick(rng, [GP, hs.DiffusionMaps, hs.HeatSketch])
    further = {GP: {"n_exact": pick(rng, [0, 1, "auto"])}, hs.HeatSketch: {"objective": pick(rng, OBJECTIVES)}}
    return kind(**options, **further.get(kind, {}))


QUERIES = {
    "distances": lambda fit: fit.diffusion_distances(),
    "interval": lambda fit: np.concatenate(fit.diffusion_distances([[0, 1]], interval=0.9)),
    "distortion": lambda fit: np.exp(-fit.distortion().log),
    "powers": lambda fit: fit.at_powers([1, 3.5, 20]),
    "further components": lambda fit: fit.add_components(1).embedding_,
    "diagnosis": lambda fit: len(str(fit.diagnose())),
    "false neighbours": lambda fit: fit.unsupported_neighbors(2).share,
    "exact distances": lambda fit: hs.diffusion_distances(fit.kernel_, 2.5),
}


def rounding_of(model, dtype):
    """Errors of new points: rounding of kernel rows, times the coefficients, which are large for powers below 1.

    A layout gives fitted points their own places.
    """
    if getattr(model, "_unit", None) is not None:
        return 0.0
    return len(model.embedding_) * np.finfo(dtype).eps * float(np.abs(model._coefficients).max())


@pytest.mark.parametrize("name", POINTS)
@cases(25)
@given(seeds)
def test_points_of_any_scale(name, rng):
    Z = hostile_points(name, rng)
    before = Z.tobytes()
    fit = attempt(lambda: random_model(rng).fit(Z))
    if fit is not None:
        Y = fit.embedding_
        assert np.isfinite(Y).all()
        assert (Y.shape, Y.dtype) == ((len(Z), fit.n_components_), Z.dtype)
        again = attempt(lambda: fit.transform(Z))
        rounding = rounding_of(fit, Z.dtype)
        np.testing.assert_allclose(again, Y, atol=(1e-6 if Z.dtype == "f8" else 1e-3) * np.abs(Y).max() + rounding)
        answer = attempt(lambda: QUERIES[pick(rng, sorted(QUERIES))](fit))
        assert answer is None or np.isfinite(answer).all()
    assert Z.tobytes() == before


# Affinities and graphs.


def hostile_affinity(rng, spread):
    n = int(rng.integers(2, 10))
    density, loops = pick(rng, [0.1, 0.3, 0.6, 1.0]), pick(rng, [0.0, 0.5, 1.0])
    kept = np.where(np.eye(n, dtype=bool), rng.random((n, n)) < loops, rng.random((n, n)) < density)
    W = np.triu(np.where(kept, 10.0 ** (spread * rng.uniform(-1, 1, (n, n))), 0.0))
    return W + np.triu(W, 1).T


@pytest.mark.parametrize("spread", [0.0, 3.0, 60.0])
@cases(50)
@given(seeds)
def test_affinities_of_any_size(spread, rng):
    W = hostile_affinity(rng, spread)
    options = {"normalization": pick(rng, NORMALIZATIONS), "power": pick(rng, POWERS), **PRECOMPUTED}
    options |= pick(rng, [{}, {"kernel_params": {"diagonal": "keep"}}, {"kernel_params": {"diagonal": "zero"}}])
    model = pick(rng, [GP(2, random_state=0, **options), hs.DiffusionMaps(1, **options)])
    Y = attempt(lambda: model.fit_transform(W))
    if Y is None:
        return
    assert np.isfinite(Y).all()
    kernel = model.kernel_
    if not kernel.scaling.converged:
        return
    S = kernel.symmetric.toarray()
    np.testing.assert_allclose(S @ kernel.trivial, kernel.trivial, atol=1e-7)
    assert np.abs(np.linalg.eigvalsh(S)).max() <= 1 + 1e-7
    rounding = rounding_of(model, float)
    for form in (np.asarray, sparse.csr_array):
        Z = attempt(lambda form=form: model.transform(form(W)))
        np.testing.assert_allclose(Z, Y, atol=1e-5 * np.abs(Y).max() + rounding)


@cases(30)
@given(seeds, st.sampled_from([1e-100, 1e-20, 3.0, 1e100]))
def test_unit_and_order_of_an_affinity_do_not_matter(rng, unit):
    W = hostile_affinity(rng, 1.0)
    options = {**PRECOMPUTED, "normalization": pick(rng, NORMALIZATIONS)}
    A, order = attempt(lambda: hs.heat_kernel(W, **options)), rng.permutation(len(W))
    scaled = (W / (W.max() or 1.0) * unit)[order][:, order]
    for form in (np.asarray, sparse.csr_array, sparse.dia_array):
        B = attempt(lambda form=form: hs.heat_kernel(form(scaled), **options))
        assert (A is None) == (B is None)
        if A is not None and A.scaling.converged:
            expected = A.toarray()[order][:, order]
            np.testing.assert_allclose(B.toarray(), expected, atol=1e-7 * np.abs(expected).max())


NODES = (0, -7, 2.5, "a", "", ("x", 1), frozenset({3}), 10**30)
WEIGHTS = (0, -0.0, 2.5, True, 1e-3, 10**20, fractions.Fraction(1, 3), np.float32(2), np.int8(3), "2.5", np.array(4.0))


def networkx_graph(n, edges):
    graph = nx.MultiGraph()
    graph.add_nodes_from(NODES[:n])
    graph.add_edges_from((NODES[a], NODES[b], {"weight": weight}) for a, b, weight in edges)
    return graph


def igraph_graph(n, edges):
    return igraph.Graph(n=n, edges=[e[:2] for e in edges], edge_attrs={"weight": [e[2] for e in edges]})


@pytest.mark.parametrize("make", [networkx_graph, igraph_graph])
@cases(25)
@given(seeds)
def test_graph_equals_its_matrix(make, rng):
    """Loops, parallel edges and weights of any number type: the matrix is the sum of all edges."""
    n = int(rng.integers(2, 8))
    edges = [(*rng.integers(0, n, 2).tolist(), pick(rng, WEIGHTS)) for _ in range(int(rng.integers(1, 14)))]
    W = np.zeros((n, n))
    for a, b, weight in edges:
        W[a, b] += float(weight)
        W[b, a] += float(weight) * (a != b)
    model = GP(2, normalization=pick(rng, NORMALIZATIONS), power=pick(rng, [0.5, 1, 3]), random_state=0, **PRECOMPUTED)
    expected = attempt(lambda: model.fit_transform(W))
    Y = attempt(lambda: model.fit_transform(make(n, edges)))
    assert (Y is None) == (expected is None)
    if Y is not None:
        np.testing.assert_allclose(Y, expected, atol=1e-6 * np.abs(expected).max())
        assert list(model.sample_names_) == list(NODES[:n] if make is networkx_graph else range(n))


@pytest.mark.parametrize("make", [networkx_graph, igraph_graph])
@pytest.mark.parametrize(("weight", "word"), [(-1, "Negative"), (np.nan, "weight nan"), ("heavy", "convert")])
def test_invalid_weight(weight, word, make):
    graph = make(3, [(0, 1, 1.0), (1, 2, weight), (0, 2, 2)])
    with pytest.raises(ValueError, match=word):
        hs.DiffusionMaps(1, **PRECOMPUTED).fit(graph)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("bridge", [1e-300, 1e-12, 1e-6])
def test_weak_bridge_separates_two_cliques(bridge, normalization):
    """Two cliques of m vertices and a bridge b: heat crosses at a rate of at most about b."""
    m = 5
    W = nx.to_numpy_array(nx.disjoint_union(nx.complete_graph(m), nx.complete_graph(m)))
    W[0, m] = W[m, 0] = bridge
    model = hs.DiffusionMaps(1, normalization=normalization, power=50, **PRECOMPUTED).fit(W)
    assert -1e-9 <= 1.0 - model.eigenvalues_[0] <= 2 * bridge + 1e-8
    distances = squareform(hs.diffusion_distances(model.kernel_, 50))
    assert distances[:m, :m].max() < 1e-3
    assert distances[:m, m:].min() > 0.2
