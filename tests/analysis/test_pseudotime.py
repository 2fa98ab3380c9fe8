"""Pseudotime: closed forms on the line and the circle, the law of its intervals, gaps, and branches."""

from __future__ import annotations

import pickle

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.spatial.distance import squareform
from scipy.stats import spearmanr
from sklearn.metrics import adjusted_rand_score

import heatsketch as hs
from heatsketch.analysis.geodesics import geodesics_from

LINE = np.linspace(0.0, 10.0, 300)[:, None]


def fork(n=600, noise=0.02, seed=0):
    """A trunk that divides in two, in R^10: points, time and branch."""
    rng = np.random.default_rng(seed)
    branch, along = rng.integers(3, size=n), rng.uniform(size=n)
    X = noise * rng.standard_normal((n, 10))
    X[:, 0] += np.where(branch == 0, along, 1.0)
    X[:, 1] += np.where(branch == 1, along, 0.0)
    X[:, 2] += np.where(branch == 2, along, 0.0)
    return X, along + (branch > 0), branch


@pytest.fixture(scope="module")
def forked():
    X, time, branch = fork()
    return hs.GaussianProcessEmbedding(8, random_state=0).fit(X), time, branch, int(time.argmin())


def two_lines(gap=2.0):
    """Two stretches of a line with a gap between them."""
    return np.concatenate([LINE[:, 0], LINE[:, 0] + LINE[-1, 0] + gap])[:, None]


class TestClosedForms:
    def test_line_is_its_length(self):
        A = hs.heat_kernel(LINE, bandwidth=0.3)
        found = hs.pseudotime(A, 150)
        near = slice(160, 200)  # heat is reflected at the ends
        np.testing.assert_allclose((found.time * found.unit)[near], LINE[near, 0] - LINE[150, 0], rtol=0.1)
        assert (np.diff(found.time[150:]) > 0).all()
        assert found.time[150] == 0
        assert found.time.max() == 1

    def test_half_a_step_is_the_distance_itself(self):
        X = np.random.default_rng(0).normal(size=(40, 3))
        found = hs.pseudotime(hs.heat_kernel(X, bandwidth=4.0, n_neighbors=None), 3, power=0.5)
        np.testing.assert_allclose(found.time * found.unit, np.linalg.norm(X - X[3], axis=1), rtol=1e-6)

    @pytest.mark.parametrize("kind", ["geodesic", "diffusion"])
    def test_circle_is_symmetric(self, kind):
        angle = 2 * np.pi * np.arange(120) / 120
        A = hs.heat_kernel(np.column_stack([np.cos(angle), np.sin(angle)]), bandwidth=0.05)
        time = hs.pseudotime(A, 0, kind=kind).time
        np.testing.assert_allclose(time[1:], time[:0:-1], rtol=1e-6)
        assert time.argmax() == 60
        assert (np.diff(time[:61]) > 0).all()


class TestLaws:
    @pytest.mark.parametrize("kind", ["geodesic", "diffusion"])
    def test_rows_of_distances(self, forked, kind):
        model, *_ = forked
        distances = {"geodesic": hs.geodesic_distances, "diffusion": hs.diffusion_distances}[kind]
        expected = squareform(distances(model.kernel_, model.power_))[5]
        found = hs.pseudotime(model.kernel_, 5, model.power_, kind=kind)
        np.testing.assert_allclose(found.time * found.unit, expected)

    def test_many_points_need_no_matrix(self, forked, monkeypatch):
        model, _, _, root = forked
        expected = hs.pseudotime(model.kernel_, root, 4)
        monkeypatch.setattr("heatsketch.analysis.pseudotime._DENSE", 10)
        np.testing.assert_allclose(hs.pseudotime(model.kernel_, root, 4).time, expected.time, rtol=1e-5)

    @pytest.mark.parametrize("kind", ["geodesic", "diffusion"])
    def test_several_roots_are_the_nearest(self, forked, kind):
        model, *_ = forked
        each = [model.pseudotime(root, kind=kind) for root in (3, 40)]
        both = model.pseudotime([40, 3], kind=kind)
        times = np.array([one.time * one.unit for one in each])
        np.testing.assert_allclose(both.time * both.unit, times.min(axis=0))
        np.testing.assert_array_equal(both.root, np.array([3, 40])[times.argmin(axis=0)])

    def test_mask_of_roots(self, forked):
        model, *_ = forked
        mask = np.isin(np.arange(600), [3, 40])
        np.testing.assert_array_equal(model.pseudotime(mask).time, model.pseudotime([3, 40]).time)

    def test_order_of_the_points_does_not_matter(self):
        X, _, _ = fork(200)
        order = np.random.default_rng(1).permutation(200)
        time = hs.pseudotime(hs.heat_kernel(X), int(order[0])).time
        np.testing.assert_allclose(hs.pseudotime(hs.heat_kernel(X[order]), 0).time, time[order], rtol=1e-3, atol=1e-4)

    def test_single_time_of_a_sketch(self, forked):
        """Exact products for a single whole time, which keep all digits."""
        kernel = forked[0].kernel_
        exact = squareform(hs.geodesic_distances(kernel, 64))[7]
        d, low, high = geodesics_from(kernel, 64.0, np.array([7]), 0.999)
        assert low is not None
        assert high is not None
        assert ((low[0] <= exact) & (exact <= high[0])).mean() > 0.99
        near = np.isfinite(exact) & (exact > 0)
        assert np.abs(np.log(d[0, near] / exact[near])).max() < 0.3

    def test_level_at_one_time(self):
        """The chi-square law is exact at one time: each point is covered in that share of the draws."""
        options = {"n_exact": 2, "n_columns": 16}
        X, _, _ = fork(120)
        kernel = hs.heat_kernel(X, bandwidth=0.05, n_neighbors=None)
        exact = squareform(hs.geodesic_distances(kernel, 2))[0, 1:]
        covered = []
        for seed in range(100):
            _, low, high = geodesics_from(kernel, 2.0, np.array([0]), 0.8, seed=seed, **options)
            covered.append(((low[0, 1:] <= exact) & (exact <= high[0, 1:])).mean())
        assert 0.74 < np.mean(covered) < 0.86

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_all_directions_are_exact(self, dtype):
        """Then nothing is random, and intervals are as narrow as rounding allows."""
        X, _, _ = fork(120)
        model = hs.GaussianProcessEmbedding(2, random_state=0).fit(X.astype(dtype))
        exact = squareform(hs.geodesic_distances(model.kernel_, model.power_))[0]
        d, low, high = geodesics_from(model.kernel_, model.power_, np.array([0]), 0.95, n_exact=119)
        np.testing.assert_allclose(d[0], exact, atol=1e-3 * exact.max())
        assert (low[0] <= exact).all()
        assert (exact <= high[0]).all()
        assert (high - low).max() < {"float32": 0.01, "float64": 1e-4}[dtype] * exact.max()

    @pytest.mark.parametrize("kind", ["geodesic", "diffusion"])
    def test_intervals_cover(self, forked, kind):
        model, _, _, root = forked
        exact = hs.pseudotime(model.kernel_, root, model.power_, kind=kind)
        found = model.pseudotime(root, kind=kind, interval=0.9)
        assert found.low is not None
        assert found.high is not None
        length = exact.time * exact.unit
        inside = (found.low * found.unit <= length) & (length <= found.high * found.unit)
        assert inside.mean() > 0.9
        assert (found.low <= found.time).all()
        assert (found.time <= found.high).all()
        assert np.isfinite(found.high).all()
        assert np.median(found.high - found.low) < 0.01


class TestPaths:
    def test_edges_have_geodesic_lengths(self):
        """Networkx finds the same paths."""
        X, _, _ = fork(150)
        kernel = hs.heat_kernel(X, n_neighbors=8)
        d = squareform(hs.geodesic_distances(kernel, "multiscale"))
        edges = np.argwhere(np.triu(kernel.symmetric.toarray(), 1))
        graph = nx.Graph()
        graph.add_weighted_edges_from([(i, j, d[i, j]) for i, j in edges])
        expected = nx.single_source_dijkstra_path_length(graph, 3)
        found = hs.pseudotime(kernel, 3, kind="path")
        np.testing.assert_allclose(
            found.time * found.unit, [expected[n] for n in range(150)], rtol=1e-4, atol=1e-4 * found.unit
        )

    def test_triangle_inequality(self, forked):
        """Times from two roots differ by at most the distance of the roots."""
        a, b = (forked[0].pseudotime(root, kind="path") for root in (3, 40))
        a, b = a.time * a.unit, b.time * b.unit
        assert a[40] == pytest.approx(b[3])
        assert np.abs(a - b).max() <= a[40] * (1 + 1e-9)

    def test_sketch_is_close(self, forked):
        model, time, branch, root = forked
        exact = hs.pseudotime(model.kernel_, root, model.power_, kind="path")
        found = model.pseudotime(root, kind="path")
        assert spearmanr(found.time, exact.time)[0] > 0.995
        assert spearmanr(found.time, time)[0] > 0.98
        assert adjusted_rand_score(branch, found.branches()) > 0.8

    def test_repeated_points_share_a_time(self):
        X, _, _ = fork(150)
        model = hs.GaussianProcessEmbedding(2, n_neighbors=8, random_state=0).fit(np.concatenate([X, X[:20]]))
        time = model.pseudotime(3, kind="path").time
        np.testing.assert_array_equal(time[150:], time[:20])

    def test_gap(self):
        with pytest.warns(UserWarning, match="without a root"):
            found = hs.pseudotime(hs.heat_kernel(two_lines(), n_neighbors=10), 0, kind="path")
        assert (np.diff(found.time) > 0).all()

    def test_no_interval(self, forked):
        with pytest.raises(ValueError, match="no law is known"):
            forked[0].pseudotime(0, kind="path", interval=0.9)

    def test_sparse_matrix(self):
        A = hs.heat_kernel(LINE)
        given = hs.pseudotime(sparse.csr_array(A.toarray()), 0)
        np.testing.assert_allclose(given.time, hs.pseudotime(A, 0).time, atol=1e-4)

    def test_every_pair_has_no_paths(self):
        with pytest.raises(ValueError, match="n_neighbors"):
            hs.pseudotime(hs.heat_kernel(LINE, n_neighbors=None), 0, kind="path")


class TestTrees:
    def test_known_time(self, forked):
        model, time, _, root = forked
        assert spearmanr(model.pseudotime(root).time, time)[0] > 0.97
        assert spearmanr(model.pseudotime(root, kind="diffusion").time, time)[0] > 0.97

    def test_known_branches(self, forked):
        model, _, branch, root = forked
        found = model.pseudotime(root).branches()
        assert adjusted_rand_score(branch, found) > 0.8
        assert found[root] == 0

    def test_line_has_one_branch(self):
        assert set(hs.pseudotime(hs.heat_kernel(LINE), 0).branches()) == {0}

    def test_branches_need_lengths(self, forked):
        with pytest.raises(ValueError, match="kind='geodesic'"):
            forked[0].pseudotime(0, kind="diffusion").branches()

    def test_result_can_be_pickled_and_shown(self, forked):
        found = forked[0].pseudotime(0, interval=0.9)
        again = pickle.loads(pickle.dumps(found))
        np.testing.assert_array_equal(again.branches(), found.branches())
        assert "600 points" in str(found)
        assert "time=" in repr(found)
        assert "_measure" not in repr(found)


class TestGaps:
    @pytest.mark.parametrize("kind", ["geodesic", "diffusion"])
    def test_time_goes_on_behind_a_gap(self, kind):
        X = two_lines()
        model = hs.GaussianProcessEmbedding(8, n_neighbors=10, random_state=0).fit(X)
        with pytest.warns(UserWarning, match="300 of 600 points .* Give a root in each component"):
            found = model.pseudotime(0, kind=kind, interval=0.9)
        assert np.isfinite(found.time).all()
        np.testing.assert_array_equal(found.gaps, np.repeat([0, 1], 300))
        assert (found.root == 0).all()
        assert found.time[300:].min() == found.time[300] > found.time[:300].max()
        assert spearmanr(found.time, X[:, 0])[0] > 0.97
        assert (found.low[:300] <= found.high[:300]).all()
        assert np.isnan([found.low[300:], found.high[300:]]).all()  # no law says how long a gap is

    def test_gap_takes_the_time_of_its_length(self):
        X = two_lines(gap=2.0)
        with pytest.warns(UserWarning, match="without a root"):
            found = hs.pseudotime(hs.heat_kernel(X, n_neighbors=10), 0)
        steps = np.diff(found.time)
        ratio = steps[299] / steps[50:250].mean()  # heat is reflected at the ends, where steps take less time
        assert 0.3 < ratio * (10.0 / 299) / 2.0 < 2.0

    def test_chain_of_gaps(self):
        X = np.concatenate([two_lines(2.0), LINE + 30.0])
        with pytest.warns(UserWarning, match="without a root"):
            found = hs.pseudotime(hs.heat_kernel(X, n_neighbors=10), 0)
        np.testing.assert_array_equal(found.gaps, np.repeat([0, 1, 2], 300))
        assert len(set(found.branches()[::300])) == 3

    def test_distances_and_other_metrics(self):
        X = np.column_stack([two_lines()[::4], np.zeros(150)])
        D = np.abs(X[:, :1] - X[:, 0])
        with pytest.warns(UserWarning, match="without a root"):
            times = [
                hs.pseudotime(hs.heat_kernel(D, n_neighbors=8, metric="precomputed"), 0).time,
                hs.pseudotime(hs.heat_kernel(X, n_neighbors=8, metric="manhattan"), 0).time,
                hs.pseudotime(hs.heat_kernel(X, n_neighbors=8), 0).time,
            ]
        np.testing.assert_allclose(times[0], times[2], atol=1e-6)
        np.testing.assert_allclose(times[1], times[2], atol=1e-6)

    @pytest.mark.parametrize("kind", ["path", "geodesic", "diffusion"])
    @pytest.mark.filterwarnings("ignore:.*components without a root")
    def test_copies_of_points_do_not_change_a_gap(self, kind):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60, 2)) * 100.0
        X[30:, 0] += 3000.0
        ends = [int(X[:30, 0].argmax()), 30 + int(X[30:, 0].argmin())]
        weights = np.ones(60)
        weights[ends] = 12.0
        copied = hs.heat_kernel(np.concatenate([X, np.repeat(X[ends], 11, axis=0)]))
        weighted = hs.heat_kernel(X, sample_weight=weights)
        a, b = (hs.pseudotime(A, 0, kind=kind) for A in (weighted, copied))
        np.testing.assert_allclose(a.time, b.time[:60], atol=1e-6)
        np.testing.assert_allclose(a.unit, b.unit, rtol=1e-6)

    def test_gap_of_every_pair_is_reported(self):
        X = np.concatenate([LINE[:100], LINE[:100] + 1e3])
        model = hs.GaussianProcessEmbedding(bandwidth=1.0, random_state=0).fit(X)
        with pytest.warns(UserWarning, match="heat has not reached 50% of the points"):
            model.pseudotime(0)

    def test_root_in_each_component(self):
        found = hs.pseudotime(hs.heat_kernel(two_lines(), n_neighbors=10), [0, 599])
        np.testing.assert_array_equal(found.root, np.repeat([0, 599], 300))
        np.testing.assert_array_equal(found.gaps, 0)

    def test_graph_without_coordinates(self):
        G = nx.disjoint_union(nx.path_graph(20), nx.path_graph(5))
        A = hs.heat_kernel(G, affinity="precomputed")
        with pytest.warns(UserWarning, match="5 of 25 points .* NaN"):
            found = hs.pseudotime(A, 0)
        assert np.isnan(found.time[20:]).all()
        assert (found.root[20:] == -1).all()
        assert (np.diff(found.time[:20]) > 0).all()
        assert found.branches().max() == 1


@pytest.mark.parametrize(
    ("roots", "said"),
    [
        (-1, "between 0 and 299"),
        (300, "between 0 and 299"),
        ([], "boolean mask"),
        (0.5, "float64"),
        (np.zeros(300, dtype=bool), "at least one root"),
        (np.ones(4, dtype=bool), "boolean mask of shape"),
        ([[0]], "shape"),
    ],
)
def test_roots_are_checked(roots, said):
    with pytest.raises(ValueError, match=said):
        hs.pseudotime(hs.heat_kernel(LINE), roots)


def test_roots_by_name():
    frame = pd.DataFrame(LINE, index=[f"cell {i}" for i in range(300)])
    model = hs.GaussianProcessEmbedding(random_state=0).fit(frame)
    np.testing.assert_array_equal(model.pseudotime(["cell 7", "cell 9"]).time, model.pseudotime([7, 9]).time)
    with pytest.raises(ValueError, match="there is no 'cell 300'"):
        model.pseudotime("cell 300")
    with pytest.raises(ValueError, match="2 samples called 'a'"):
        hs.GaussianProcessEmbedding(random_state=0).fit(frame.set_axis(["a", "a", *frame.index[2:]])).pseudotime("a")


def test_integers_are_row_numbers():
    graph = nx.relabel_nodes(nx.karate_club_graph(), lambda node: node + 1)
    model = hs.GaussianProcessEmbedding(affinity="precomputed", random_state=0).fit(graph)
    with pytest.warns(UserWarning, match="sample named 2 is in row 1.*'2'") as said:
        by_number = model.pseudotime(2)
    assert said[0].filename == __file__
    np.testing.assert_array_equal(by_number.time, model.pseudotime("3").time)
    with pytest.warns(UserWarning, match="sample named 5 is in row 4"):
        found = model.diffusion_distances([[0, 5]])
    np.testing.assert_array_equal(found, model.diffusion_distances([["1", "6"]]))
    model.pseudotime(0)  # which is no name
    model.fit(nx.karate_club_graph()).pseudotime(2)  # which is the name of this row


@pytest.mark.parametrize("dtype", [bool, "boolean"])
def test_mask_with_an_index_is_aligned(dtype):
    frame = pd.DataFrame(LINE, index=[f"cell {i}" for i in range(300)])
    model = hs.GaussianProcessEmbedding(random_state=0).fit(frame)
    mask = pd.Series(np.arange(300) == 7, index=frame.index, dtype=dtype)
    expected = model.pseudotime(7).time
    for given in (mask, mask[::-1]):
        np.testing.assert_array_equal(model.pseudotime(given).time, expected)
    for other in (mask[:-1], mask.reset_index(drop=True), pd.concat([mask[:-1], mask[:1]])):
        with pytest.raises(ValueError, match="index of the mask"):
            model.pseudotime(other)
    model.fit(LINE)  # without names
    np.testing.assert_array_equal(model.pseudotime(mask).time, expected)
    np.testing.assert_array_equal(model.pseudotime(mask.reset_index(drop=True)[::-1]).time, expected)


@pytest.mark.parametrize(
    "ask", [lambda X: hs.pseudotime(hs.heat_kernel(X), 0), lambda X: hs.DiffusionMaps().fit(X).pseudotime(0)]
)
def test_warnings_name_the_line_of_the_caller(ask):
    with pytest.warns(UserWarning, match="without a root") as said:
        ask(two_lines())
    assert said[0].filename == __file__


def test_kind_is_checked(forked):
    with pytest.raises(ValueError, match="geodesic"):
        hs.pseudotime(hs.heat_kernel(LINE), 0, kind="euclidean")
    with pytest.raises(ValueError, match="geodesic"):
        forked[0].pseudotime(0, kind="euclidean")
