"""What bad input gets: an error that names what was received, what is accepted and the next step."""

from __future__ import annotations

import igraph
import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import heatsketch as hs
from heatsketch.kernel.graphs import adjacency
from parameters import folded

GP, DM = hs.GaussianProcessEmbedding, hs.DiffusionMaps
X = np.random.default_rng(0).normal(size=(30, 3))


def _with(value):
    Z = X.copy()
    Z[3, 1] = value
    return Z


@pytest.mark.parametrize("estimator", [GP, DM])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (_with(np.nan), "contains NaN"),
        (_with(np.inf), "contains infinity"),
        (np.empty((0, 3)), r"0 sample\(s\)"),
        (np.empty((5, 0)), r"0 feature\(s\)"),
        (X[:1], "1 sample"),
        (X[:, 0], "Expected 2D array"),
        (X[None], "dim 3"),
        (X + 1j, "Complex data not supported"),
        (np.array([["a", "b"], ["c", "d"]]), "could not convert string to float.*encode categories"),
        (np.ones((10, 2)), "all distances between the 10 points are zero"),
        (1e200 * X, "overflow; divide X"),
        (1e-200 * X, "underflow"),
    ],
)
def test_data(estimator, data, message):
    with pytest.raises(ValueError, match=message):
        estimator(1).fit(data)


BAD = {
    "n_components": [0, -2, 2.5, True, "many"],
    "power": [0, "fast", np.inf, None, [1, 2]],
    "bandwidth": [0, -1.0, np.nan, "wide", None, True, 1e-8, 1e16],
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
}


@pytest.mark.parametrize("estimator", [GP, DM])
@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_errors_name_the_parameter(estimator, name, value):
    with pytest.raises(ValueError, match=name):
        estimator(**{"n_components": 2, **folded({name: value})}).fit(X)


@pytest.mark.parametrize("estimator", [GP, DM])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"affinity": "precomputed"}, "square"),
        ({"metric": "precomputed"}, "must hold distances"),
        ({"affinity": "precomputed", "metric": "precomputed"}, "say which of the two X holds"),
    ],
    ids=str,
)
def test_points_are_not_precomputed(estimator, parameters, message):
    with pytest.raises(ValueError, match=message):
        estimator(2, **parameters).fit(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"sketch": "cauchy"}, "sketch='cauchy' is not known"),
        ({"sketch": np.ones((3, 2))}, r"shape \(3, 2\)"),
        ({"sketch": np.ones((30, 5))}, r"shape \(30, 5\).*must be of shape \(n_samples, 2\)"),
        ({"sketch": np.ones((30, 2)) * 1j}, "it must be real"),
        ({"n_components": "auto", "sketch": "columns"}, "follows from the law of the sketch"),
        ({"n_exact": -1}, "n_exact=-1 was given; it must be a non-negative integer"),
        ({"n_exact": 2}, "at least one component must be left"),
        ({"n_components": "auto", "distance_error": 2}, "distance_error=2 was given"),
        ({"n_components": 31, "sketch": "columns"}, "30 columns"),
        ({"random_state": -5}, "non-negative integer"),
    ],
    ids=str,
)
def test_parameters_of_the_gaussian_process_embedding(parameters, message):
    with pytest.raises(ValueError, match=message):
        GP(**{"n_components": 2, **parameters}).fit(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 30}, "30 samples have 29 more; ask for between 1 and 29"),
        ({"solver": "qr"}, "solver='qr' is not known; use one of"),
    ],
    ids=str,
)
def test_parameters_of_diffusion_maps(parameters, message):
    with pytest.raises(ValueError, match=message):
        DM(**{"n_components": 2, **parameters}).fit(X)


def test_parameters_are_refused_before_any_work(monkeypatch):
    def never(*_args, **_kwargs):
        raise AssertionError("the kernel was built")

    monkeypatch.setattr("heatsketch.estimators._base.build_affinity", never)
    for parameters in ({"sketch": "cauchy"}, {"n_exact": 9}, {"power": -1}, {"device": "tpu"}, {"diagonal": "x"}):
        with pytest.raises(ValueError, match=str(next(iter(parameters)))):
            GP(2, **folded(parameters)).fit(X)


class TestTransform:
    def test_wrong_number_of_features(self):
        with pytest.raises(ValueError, match="X has 2 features, but GaussianProcessEmbedding is expecting 3"):
            GP(2).fit(X).transform(X[:, :2])

    def test_not_fitted(self):
        with pytest.raises(ValueError, match="not fitted yet"):
            GP(2).transform(X)
        for call in (lambda m: m.add_components(1), lambda m: m.at_powers([1]), lambda m: m.distortion()):
            with pytest.raises(ValueError, match="not fitted yet"):
                call(DM(2))

    def test_one_row_is_enough(self):
        assert GP(2).fit(X).transform(X[:1]).shape == (1, 2)


class TestUnusualButFine:
    """Each works, and gives finite numbers."""

    @pytest.mark.parametrize("estimator", [GP(2, random_state=0), DM(2)], ids=str)
    @pytest.mark.parametrize(
        "data",
        [
            np.vstack([X, X]),  # duplicates
            np.repeat(X[:4], 20, axis=0),  # almost nothing but duplicates
            np.column_stack([X, np.ones(30)]),  # a constant column
            np.linspace(0, 1, 30)[:, None],  # one feature
            np.random.default_rng(0).normal(size=(10, 500)),  # more features than samples
            np.vstack([X, X + 1e8]),  # two far clusters
            np.vstack([X, [[1e3, 0, 0]]]),  # an outlier
            X * 1e100,
            X * 1e-100,
            sparse.csr_array(np.where(np.random.default_rng(0).random((30, 40)) < 0.2, 1.0, 0.0)),
        ],
        ids=lambda data: str(data.shape),
    )
    def test_data(self, estimator, data):
        Y = estimator.fit_transform(data)
        assert np.isfinite(Y).all()
        assert np.ptp(Y, axis=0).max() > 0

    def test_more_components_than_samples(self):
        assert np.isfinite(GP(100, random_state=0).fit_transform(X)).all()

    def test_two_samples(self):
        assert np.isfinite(GP(3, random_state=0).fit_transform(X[:2])).all()
        assert DM(1).fit_transform(X[:2]).shape == (2, 1)

    def test_all_components(self):
        for power in (1, 0.5, 8):
            assert np.isfinite(DM(29, bandwidth=5.0, power=power).fit_transform(X)).all()

    @pytest.mark.parametrize("power", [0.5, 1, 10_000])
    def test_times(self, power):
        Z = hs.datasets.circle(100, random_state=0)
        for model in (GP(3, power=power, bandwidth=0.1, random_state=0), DM(3, power=power, bandwidth=0.1)):
            Y = model.fit_transform(Z)
            assert np.isfinite(Y).all()
            np.testing.assert_allclose(model.transform(Z), Y, atol=1e-6 * np.abs(Y).max())

    @pytest.mark.parametrize("power", [1e-3, 0.1])
    def test_very_short_times_say_what_they_lack(self, power):
        Z = hs.datasets.circle(100, random_state=0)
        model = GP(3, power=power, bandwidth=0.25, random_state=0)
        with pytest.warns(ConvergenceWarning, match="reach eigenvalues near zero"):
            Y = model.fit_transform(Z)
        assert np.isfinite(Y).all()
        np.testing.assert_allclose(model.transform(Z), Y, atol=1e-6 * np.abs(Y).max())

    def test_a_time_at_which_nothing_is_left_is_refused(self):
        with pytest.raises(ValueError, match=r"nothing but the constant is left.*use a smaller power"):
            GP(2, power=1e6, bandwidth=5.0).fit(X)

    def test_real_power_of_an_indefinite_kernel_is_refused(self):
        with pytest.raises(ValueError, match="use a whole power"):
            GP(2, power=2.5, kernel_params={"diagonal": "zero"}, bandwidth=5.0).fit(X)


class TestOtherInput:
    def test_columns_of_words_are_named(self):
        frame = pd.DataFrame({"a": np.arange(5.0), "colour": list("rgbrg"), "size": pd.Categorical(list("smlsm"))})
        with pytest.raises(ValueError, match=r"columns \['colour', 'size'\] of X are not numeric; encode"):
            GP(2).fit(frame)
        polar = pl.DataFrame({"a": [1.0, 2, 3], "when": pl.Series(["2020", "2021", "2022"]).str.to_date("%Y")})
        with pytest.raises(ValueError, match=r"columns \['when'\]"):
            GP(2).fit(polar)
        with pytest.raises(ValueError, match="turn dates into numbers"):
            GP(2).fit(np.array([["2020"], ["2021"]], dtype="datetime64[Y]"))
        mixed = pd.DataFrame({"a": np.arange(5.0), "b": pd.Series([1, 2, 3.5, 4, 5], dtype=object)})
        assert GP(2).fit_transform(mixed).shape == (5, 2)

    def test_missing_values(self):
        with pytest.raises(ValueError, match="contains NaN"):
            GP(2).fit(pd.DataFrame({"a": [1.0, np.nan, 2.0]}))

    @pytest.mark.parametrize("form", [np.array, sparse.csr_array])
    def test_missing_values_of_a_kernel(self, form):
        A = np.eye(4)
        A[0, 1], A[1, 0] = np.nan, np.inf
        with pytest.raises(ValueError, match=r"A was given with 2 entries that are NaN or infinite.*heat_kernel\(X"):
            hs.diffusion_distances(form(A), 2)

    def test_condensed_distances(self):
        with pytest.raises(ValueError, match="squareform"):
            GP(2, metric="precomputed").fit(np.ones(6))

    def test_sparse_with_a_metric_that_is_not_made_for_it(self):
        with pytest.raises(ValueError, match=r"'chebyshev'.*sparse X.*X.toarray"):
            GP(2, metric="chebyshev").fit(sparse.csr_array(X))

    @pytest.mark.parametrize("interval", [0, 1.0, 95, "wide", True])
    def test_intervals(self, interval):
        for model in (GP(2), DM(2)):
            with pytest.raises(ValueError, match="it must lie strictly between 0 and 1"):
                model.fit(X).diffusion_distances([[0, 1]], interval=interval)

    def test_an_estimator_in_place_of_a_kernel(self):
        with pytest.raises(ValueError, match="its kernel_"):
            hs.diffusion_distances(GP(2).fit(X), 2)

    def test_edges_without_weight_weigh_one(self):
        graph = igraph.Graph(n=3, edges=[(0, 1), (1, 2)])
        graph.es[0]["weight"] = 2.0
        np.testing.assert_array_equal(adjacency(graph).toarray(), [[0, 2, 0], [2, 0, 1], [0, 1, 0]])

    def test_an_empty_graph(self):
        with pytest.raises(ValueError, match=r"0 sample\(s\)"):
            GP(2, affinity="precomputed").fit(nx.Graph())

    @pytest.mark.parametrize(
        "call",
        [
            lambda: hs.canonical_metric(np.full((2, 2), np.nan)),
            lambda: hs.canonical_metric(np.arange(4.0).reshape(2, 2)),
            lambda: hs.distance_interval(np.nan, 3),
            lambda: hs.distance_interval(1.0, 1.5),
            lambda: hs.gaussian_process(np.eye(3), 0),
            lambda: hs.components_for(0.1, 2.5),
            lambda: hs.global_diffusion_distance(np.eye(3), np.eye(3), n_components=2.5),
            lambda: hs.bilipschitz_constant(np.eye(2), [-1.0]),
            lambda: hs.measure_distortion(np.eye(2), [1.0], quantiles=(0.7,)),
            lambda: hs.estimate_bandwidth(np.ones((2, 3)), metric="precomputed"),
            lambda: hs.datasets.stretched_torus(10, np.nan),
        ],
    )
    def test_functions_refuse_nonsense(self, call):
        with pytest.raises(ValueError, match=r"must|contain"):
            call()


def test_canonical_metric_takes_a_kernel():
    A = hs.heat_kernel(X, bandwidth=5.0)
    np.testing.assert_allclose(hs.canonical_metric(A), hs.diffusion_distances(A, 0.5), atol=1e-7)
