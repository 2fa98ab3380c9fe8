"""Bad input raises an error that names what was given; unusual input gives finite numbers."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from anndata import AnnData
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import heatsketch as hs
from heatsketch.kernel.operator import as_heat_kernel
from parameters import folded

GP, DM, HS = hs.GaussianProcessEmbedding, hs.DiffusionMaps, hs.HeatSketch
X = np.random.default_rng(0).normal(size=(30, 3))


def _with(value):
    Z = X.copy()
    Z[3, 1] = value
    return Z


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (_with(np.nan), "NaN"),
        (_with(np.inf), "infinity"),
        (np.empty((0, 3)), r"0 sample\(s\)"),
        (np.empty((5, 0)), r"0 feature\(s\)"),
        (X[:1], "1 sample"),
        (X[:, 0], "Expected 2D array"),
        (X[None], "dim 3"),
        (X + 1j, "Complex data"),
        (np.array([["a", "b"], ["c", "d"]]), "encode categories"),
        (np.array([["2020"], ["2021"]], dtype="datetime64[Y]"), "dates"),
        (pd.DataFrame({"a": np.arange(5.0), "colour": list("rgbrg")}), "encode"),
        (pl.DataFrame({"a": [1.0, 2, 3], "when": pl.Series(["2020", "2021", "2022"]).str.to_date("%Y")}), "dates"),
        (pd.DataFrame({"a": [1.0, np.nan, 2.0]}), "NaN"),
        (np.ones((10, 2)), "distances between points are zero"),
        (1e200 * X, "overflow"),
        (1e-200 * X, "underflow"),
    ],
)
def test_data(data, message):
    with pytest.raises(ValueError, match=message):
        GP(1).fit(data)


BAD = {
    "n_components": [0, 2.5, True, "many"],
    "power": [0, "fast", np.inf, None, [1, 2]],
    "bandwidth": [0, np.nan, "wide", None, True, 1e-8, 1e16],
    "alpha": ["one", np.nan, 2],
    "normalization": ["rowwise"],
    "affinity": ["linear"],
    "metric": ["furlongs", "seuclidean"],
    "metric_params": [3],
    "n_neighbors": [0, "all"],
    "device": ["tpu", None],
    "diagonal": ["one"],
    "precision": ["double"],
    "tol": [0, None],
    "max_iter": [-1, None, 1e3],
    "bandwidth_neighbor": [0],
    "kernel_params": [3, {"cut": 0.1}],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_errors_name_the_parameter(name, value):
    with pytest.raises(ValueError, match=name):
        DM(**{"n_components": 2, **folded({name: value})}).fit(X)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (GP(2, affinity="precomputed"), "precomputed affinities"),
        (GP(2, metric="precomputed"), "precomputed distances"),
        (GP(2, affinity="precomputed", metric="precomputed"), "which of the two"),
        (GP(2, sketch="cauchy"), "sketch="),
        (GP(2, sketch=np.ones((3, 2))), r"shape \(3, 2\)"),
        (GP(2, sketch=np.ones((30, 5))), r"shape \(30, 5\)"),
        (GP(2, sketch=np.ones((30, 2)) * 1j), "real"),
        (GP("auto", sketch="columns"), "law of the sketch"),
        (GP(2, n_exact=-1), "n_exact=-1"),
        (GP(2, n_exact=2), "at least one component"),
        (GP(2, n_exact="auto", sketch=np.ones((30, 2))), "n_exact='auto'"),
        (GP("auto", distance_error=2), "distance_error=2"),
        (GP(31, sketch="columns"), "fewer components"),
        (GP(2, random_state=-5), "non-negative integer"),
        (GP(2, power=1e4, bandwidth=5.0), "nothing but the constant is left"),
        (GP(2, power=2.5, kernel_params={"diagonal": "zero"}, bandwidth=5.0), "whole power"),
        (DM(30), "between 1 and 29"),
        (DM(2, solver="qr"), "solver="),
        (DM("auto"), "GaussianProcessEmbedding"),
        (HS("auto"), "GaussianProcessEmbedding"),
        (HS(2, power=1e4, bandwidth=5.0), "nothing but the constant is left"),
        (HS(2, power=1e4, bandwidth=5.0, objective="bilipschitz"), "nothing but the constant is left"),
        (HS(2, objective="stress"), "objective="),
        (HS(2, objective=None), "objective="),
        (HS(2, neighbor_weight=-0.1), "neighbor_weight=-0.1"),
        (HS(2, neighbor_weight=1.5), "neighbor_weight=1.5"),
        (HS(2, neighbor_weight=np.nan), "neighbor_weight=nan"),
        (HS(2, neighbor_weight="all"), "neighbor_weight='all'"),
        (HS(2, neighbor_weight=True), "neighbor_weight=True"),
        (HS(2, init="spectral"), "init='spectral'"),
        (HS(2, init=[]), "init"),
        (HS(2, init=np.zeros((30, 3))), "init="),
        (HS(2, init=np.zeros((10, 2))), "10 rows for 30 samples"),
        (HS(2, init=np.full((30, 2), np.nan)), "init contains NaN"),
        (HS(2, init=np.ones((30, 2))), "equal rows"),
    ],
    ids=str,
)
def test_parameters(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X)


def test_parameters_are_checked_before_any_work(monkeypatch):
    def never(*_args, **_kwargs):
        raise AssertionError("the kernel was built")

    monkeypatch.setattr("heatsketch.estimators._base.build_affinity", never)
    for parameters in ({"sketch": "cauchy"}, {"n_exact": 9}, {"power": -1}, {"device": "tpu"}, {"diagonal": "x"}):
        with pytest.raises(ValueError, match=str(next(iter(parameters)))):
            GP(2, **folded(parameters)).fit(X)


def test_new_points():
    with pytest.raises(ValueError, match="X has 2 features"):
        GP(2).fit(X).transform(X[:, :2])
    for bandwidth in (1.0, "self-tuning"):
        with pytest.raises(ValueError, match="overflow"):
            GP(2, bandwidth=bandwidth).fit(X).transform(np.full((1, 3), 1e160))
    D = np.abs(X[:, :1] - X[:, 0])
    with pytest.raises(ValueError, match="precomputed distances"):
        GP(2, metric="precomputed", bandwidth=1.0).fit(D).transform(-D)


class TestUnusualData:
    """Each works and gives finite numbers."""

    @pytest.mark.parametrize("estimator", [GP(2, random_state=0), DM(2)], ids=str)
    @pytest.mark.parametrize(
        "data",
        [
            np.repeat(X[:4], 20, axis=0),  # duplicates
            np.column_stack([X, np.ones(30)]),  # a constant column
            np.linspace(0, 1, 30)[:, None],  # one feature
            np.random.default_rng(0).normal(size=(10, 500)),  # more features than samples
            np.vstack([X, X + 1e8]),  # two far clusters
            np.vstack([X, [[1e3, 0, 0]]]),  # an outlier
            X * 1e100,
            X * 1e-100,
            sparse.csr_array(np.where(np.random.default_rng(0).random((30, 40)) < 0.2, 1.0, 0.0)),
            pd.DataFrame({"a": np.arange(5.0), "b": pd.Series([1, 2, 3.5, 4, 5], dtype=object)}),
        ],
        ids=lambda data: str(data.shape),
    )
    def test_data(self, estimator, data):
        Y = estimator.fit_transform(data)
        assert np.isfinite(Y).all()
        assert np.ptp(Y, axis=0).max() > 0

    def test_many_components_and_few_samples(self):
        assert np.isfinite(GP(100, random_state=0).fit_transform(X)).all()
        assert np.isfinite(GP(3, random_state=0).fit_transform(X[:2])).all()
        assert DM(1).fit_transform(X[:2]).shape == (2, 1)
        for power in (1, 0.5, 8):
            assert np.isfinite(DM(29, bandwidth=5.0, power=power).fit_transform(X)).all()

    @pytest.mark.parametrize("power", [0.5, 10_000])
    def test_short_and_long_times(self, power):
        Z = hs.datasets.circle(100, random_state=0)
        for model in (GP(3, power=power, bandwidth=0.1, random_state=0), DM(3, power=power, bandwidth=0.1)):
            Y = model.fit_transform(Z)
            assert np.isfinite(Y).all()
            np.testing.assert_allclose(model.transform(Z), Y, atol=1e-6 * np.abs(Y).max())

    def test_very_short_times_warn(self):
        model = GP(3, power=1e-3, bandwidth=0.25, random_state=0)
        with pytest.warns(ConvergenceWarning, match="eigenvalues near zero"):
            assert np.isfinite(model.fit_transform(hs.datasets.circle(100, random_state=0))).all()


def _infinite(form):
    A = np.eye(4)
    A[0, 1] = A[1, 0] = np.nan
    return form(A)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hs.diffusion_distances(_infinite(np.array), 2), "NaN"),
        (lambda: hs.diffusion_distances(_infinite(sparse.csr_array), 2), "NaN"),
        (lambda: hs.diffusion_distances(GP(2).fit(X), 2), "kernel_"),
        (lambda: hs.diffusion_distances(nx.path_graph(4), 2), "heat_kernel"),
        (lambda: hs.diffusion_distances(np.eye(3) * 1e160, 2), "range"),
        (lambda: as_heat_kernel(np.eye(3)).rows_at_new_points(np.eye(3)), "new points"),
        (lambda: GP(2, metric="precomputed").fit(np.ones(6)), "squareform"),
        (lambda: GP(2, metric="chebyshev").fit(sparse.csr_array(X)), "chebyshev"),
        (lambda: GP(2, metric="euclidian").fit(X), "Did you mean 'euclidean'"),
        (lambda: GP(2, affinity="precomputed").fit(nx.Graph()), r"0 sample\(s\)"),
        (lambda: GP(2).fit(nx.path_graph(4)), "affinity='precomputed'"),
        (lambda: GP(2).fit(X).diffusion_distances([[0, 1]], interval=95), "interval=95"),
        (lambda: hs.canonical_metric(np.full((2, 2), np.nan)), "finite"),
        (lambda: hs.canonical_metric(np.arange(4.0).reshape(2, 2)), "symmetric"),
        (lambda: hs.gaussian_process(np.eye(3), 0), "n_draws"),
        (lambda: hs.bilipschitz_constant(np.eye(2), [-1.0]), "negative"),
        (lambda: hs.measure_distortion(np.eye(2), [1.0], quantiles=(0.7,)), "quantiles"),
        (lambda: hs.estimate_bandwidth(np.ones((2, 3)), metric="precomputed"), "square"),
        (lambda: hs.datasets.stretched_torus(10, np.nan), "radius"),
    ],
)
def test_functions(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_anndata():
    adata = AnnData(X)
    for call in (GP(2).fit, hs.heat_kernel, hs.plot_embedding):
        with pytest.raises(TypeError, match="heat_sketch"):
            call(adata)


def test_complex_tensors():
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="Complex"):
        GP(2).fit(torch.ones((4, 2), dtype=torch.complex64))
