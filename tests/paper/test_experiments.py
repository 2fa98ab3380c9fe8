"""Experiments: every declaration at a toy size, against independent code and the laws they illustrate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist, squareform

import heatsketch as hs
from heatsketch.linalg.sketch import GaussianSketch, RademacherSketch
from heatsketch_paper.catalogue import EXPERIMENTS
from heatsketch_paper.charts import crossings, distortion_and_rank
from heatsketch_paper.errors import ReproductionError
from heatsketch_paper.figures import FIGURES, find_figures, plan
from heatsketch_paper.laws import covering_radii, entropy_integral
from heatsketch_paper.methods import BEYOND, METHODS, PAPER_METHODS, Scene
from heatsketch_paper.obstacles import torus_grid
from heatsketch_paper.pictures import DRAWINGS


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_declaration_runs_at_a_toy_size(name, toy):
    experiment = toy(EXPERIMENTS[name])
    rows = experiment.trial(0)
    again = experiment.trial(0)
    other = experiment.trial(1)
    table, repeated = (pd.DataFrame(found).drop(columns="seconds", errors="ignore") for found in (rows, again))
    pd.testing.assert_frame_equal(table, repeated)
    # Empty cells are meant where a quantity has no such index; outliers may be absent, and then infinitely far.
    numbers = table.select_dtypes("number").drop(columns=["at", "k", "p"], errors="ignore")
    assert np.isfinite(numbers.drop(columns="outlier_distance", errors="ignore")).all(axis=None)
    if name != "cost":
        assert rows != other


def test_parameters_are_those_of_the_paper():
    for name, n, p, eps, ks, trials in (
        ("circle", 300, 8, 0.25, range(2, 9), 200),
        ("stretched_torus", 500, 10, 0.3, range(2, 13), 100),
        ("klein_bottle", 500, 4, 2.0, range(3, 21), 100),
        ("circle_with_outliers", 200, 4, 0.5, range(2, 6), 100),
    ):
        chart = EXPERIMENTS[name]
        assert (chart.n_samples, chart.powers, chart.bandwidth, chart.n_trials) == (n, (p,), eps, trials)
        assert (chart.n_components, chart.distance) == (tuple(ks), "diffusion")
    for name, n, k, eps, most in (("multiscale_torus", 500, 8, 0.3, 10), ("multiscale_circle", 300, 2, 0.25, 8)):
        chart = EXPERIMENTS[name]
        assert (chart.n_samples, chart.n_components, chart.bandwidth, chart.n_trials) == (n, (k,), eps, 100)
        assert (chart.powers, chart.distance) == (tuple(2**i for i in range(1, most + 1)), "euclidean")
    assert EXPERIMENTS["gaussian_clouds"].distance == "euclidean"


def _naive(X, chart, k, method, seed):
    """Algorithms 1 to 5 as the paper prints them (with its errata), sharing no code with the package."""
    eps, p = chart.bandwidth, chart.powers[0]
    K = np.exp(-np.square(X[:, None, :] - X[None, :, :]).sum(axis=2) / eps)
    if method.endswith("S"):
        q = K.sum(axis=1)
        K = K / np.outer(q, q)
        v = K.sum(axis=1)
        A = K / np.sqrt(np.outer(v, v))
    else:
        d = np.ones(len(X))
        for _ in range(200):
            d = np.sqrt(d * (K @ (1.0 / d)))
        A = K / np.outer(d, d)
    power = np.linalg.matrix_power(A, p)
    if method.startswith("DM"):
        values, vectors = np.linalg.eigh(A)
        Y = (vectors[:, ::-1] * values[::-1] ** p)[:, 1 : k + 1]
    else:
        law = RademacherSketch if method.startswith("GPSB") else GaussianSketch
        Y = power @ law(seed).matrix(len(X), k) / np.sqrt(k)
    ratio = pdist(Y) / pdist(power)
    return np.log(ratio.max() / ratio.min())


@pytest.mark.parametrize("method", PAPER_METHODS)
@pytest.mark.parametrize("name", ["circle", "stretched_torus", "klein_bottle", "circle_with_outliers"])
def test_charts_match_an_independent_implementation_of_the_paper(name, method):
    chart = replace(EXPERIMENTS[name], methods=(method,))
    rows = {row["k"]: row["log_L"] for row in chart.trial(3)}
    X = getattr(hs.datasets, chart.data)(chart.n_samples, random_state=chart.points_seed(3))
    for k in (chart.n_components[0], chart.n_components[-1]):
        expected = _naive(X, chart, k, method, chart.sketch_seed(3))
        assert rows[k] == pytest.approx(expected, abs=1e-4)


def test_multiscale_charts_compare_with_the_euclidean_distance():
    chart = replace(EXPERIMENTS["multiscale_circle"], methods=("GPS",), n_samples=80, powers=(2, 16))
    X = hs.datasets.circle(80, random_state=chart.points_seed(0))
    K = np.exp(-squareform(pdist(X, "sqeuclidean")) / chart.bandwidth)
    q = K.sum(axis=1)
    K /= np.outer(q, q)
    A = K / np.sqrt(np.outer(K.sum(axis=1), K.sum(axis=1)))
    G = GaussianSketch(chart.sketch_seed(0)).matrix(80, 2)
    for row in chart.trial(0):
        ratio = pdist(np.linalg.matrix_power(A, row["p"]) @ G) / pdist(X)
        assert row["log_L"] == pytest.approx(np.log(ratio.max() / ratio.min()), abs=1e-6)


def test_half_exact_is_the_estimator_of_that_name():
    X = hs.datasets.stretched_torus(80, random_state=0)
    scene = Scene(X, 0.3, (10,), 8, seed=3)
    model = hs.GaussianProcessEmbedding(
        8, n_exact=4, power=10, bandwidth=0.3, normalization="symmetric", n_neighbors=None, random_state=3
    ).fit(X)
    np.testing.assert_allclose(METHODS["GPXS"].embed(scene, 8, 10), model.embedding_, atol=1e-9)


def test_contracted_is_the_rank_of_the_most_contracted_pair():
    X = np.array([[0.0], [1.0], [3.0], [7.0]])
    Y = np.array([[0.0], [1.0], [3.0], [3.001]])  # points 2 and 3, at distance 4, fall together
    found = distortion_and_rank(Y, pdist(X))
    assert found["contracted"] == pytest.approx(np.mean(pdist(X) < 4))
    assert found["log_L"] == pytest.approx(np.log(1.0 / (0.001 / 4)))


@pytest.mark.parametrize(("winds", "expected"), [(1, 0), (2, 1), (3, 2)])
def test_crossings_of_limacons(winds, expected):
    # A closed curve that winds around m times crosses itself at least m - 1 times; this one exactly so.
    t = np.linspace(0, 2 * np.pi, 500, endpoint=False) + 0.01
    r = 1.0 + 0.3 * np.cos(t)
    points = np.column_stack([r * np.cos(winds * t), r * np.sin(winds * t)])
    order = np.random.default_rng(0).permutation(500)
    assert crossings(t[order], points[order]) == expected


def test_crossing_of_an_eight():
    t = np.linspace(0, 2 * np.pi, 301, endpoint=False) + 0.001
    assert crossings(t, np.column_stack([np.sin(t), np.sin(2 * t)])) == 1


def test_covering_radii_of_points_on_a_line():
    n = 33
    radii = covering_radii(pdist(np.arange(n, dtype=float)[:, None]), n)
    for m in range(1, n + 1):  # m intervals of radius r cover (2 r + 1) m points; the traversal at most doubles r
        best = np.ceil((n / m - 1) / 2)
        assert best <= radii[m - 1] <= 2 * best


def test_entropy_integral_brackets_the_exact_one():
    n = 33
    d = pdist(np.arange(n, dtype=float)[:, None])
    low, high = entropy_integral(d, n)
    radius = np.arange(32)  # N(eps) is constant between whole radii
    exact = np.log(np.ceil(n / (2 * radius + 1)) + 1).sum()
    assert low <= exact <= high <= 2.5 * low


def test_process_of_the_expansion_is_a_product_with_the_kernel(toy):
    experiment = toy(EXPERIMENTS["karhunen_loeve"])
    rows = pd.DataFrame(experiment.trial(0))
    path = rows[(rows["quantity"] == "path") & (rows["terms"] == -1)]["value"].to_numpy()
    A = hs.heat_kernel(hs.datasets.circle(45, experiment.points_seed(0)), bandwidth=0.25, n_neighbors=None).toarray()
    np.testing.assert_allclose(path, A @ GaussianSketch(experiment.sketch_seed(0)).matrix(45, 1)[:, 0], atol=1e-12)
    expected = rows[rows["quantity"] == "expected"].set_index("terms")["value"]
    assert expected[0] == pytest.approx(np.square(A).sum() - 1)  # |A|^2 without the constant mode


def test_distance_law_predicts_the_variance_of_its_pairs():
    experiment = replace(EXPERIMENTS["distance_law"], n_samples=60)
    rows = pd.DataFrame(experiment.trial(0))
    X = hs.datasets.stretched_torus(60, random_state=experiment.points_seed(0))
    kernel = hs.heat_kernel(X, bandwidth=0.3, n_neighbors=None)
    A = np.linalg.matrix_power(kernel.toarray(), 10)
    i, j, _ = experiment._triples(kernel).T
    v = A[i] - A[j]
    signs = 2 / 8 * (1 - np.sum(v**4, axis=1) / np.sum(v**2, axis=1) ** 2)
    np.testing.assert_allclose(rows[rows["method"] == "rademacher"]["variance"], signs, rtol=1e-6)
    np.testing.assert_allclose(rows[rows["method"] == "gaussian"]["variance"], 2 / 8)


def test_torus_grids_are_even():
    X = torus_grid(400, 3.5)
    nearest = np.sort(squareform(pdist(X)), axis=1)[:, 1]
    assert len(X) == pytest.approx(400, rel=0.1)
    assert np.ptp(nearest) < 1e-12
    np.testing.assert_allclose(np.linalg.norm(X[:, :2], axis=1), 1)
    np.testing.assert_allclose(np.linalg.norm(X[:, 2:], axis=1), 3.5)


def test_figures_name_experiments_methods_and_drawings():
    assert {name for figure in FIGURES.values() for name in figure.experiments} == set(EXPERIMENTS)
    assert {m for figure in FIGURES.values() for m in figure.methods} <= set(METHODS)
    assert {figure.drawing for figure in FIGURES.values()} == set(DRAWINGS)


def test_figures_are_found_by_name_and_group():
    assert [f.name for f in find_figures(["cost", "circle"])] == ["circle", "cost"]
    assert {f.group for f in find_figures(["section5"])} == {"section5"}
    assert len(find_figures()) == len(FIGURES)
    with pytest.raises(ReproductionError, match="did you mean 'klein_bottle'"):
        find_figures(["klein"])


def test_plan_computes_what_figures_share_once():
    experiments = plan(find_figures(["klein_bottle", "bernoulli_klein_bottle"]), n_trials=7)
    assert [e.name for e in experiments] == ["klein_bottle"]
    assert experiments[0].n_trials == 7
    for wrong in (0, 2.5):
        with pytest.raises(ReproductionError, match="n_trials"):
            plan(find_figures(), n_trials=wrong)


def test_beyond_adds_our_methods_to_the_charts(toy):
    (ours,) = plan(find_figures(["circle"]), beyond=True)
    assert {row["method"] for row in toy(ours).trial(0)} == {*PAPER_METHODS, *BEYOND}


def test_drawn_samples_keep_their_number_of_trials():
    trials = {e.name: e.n_trials for e in plan(find_figures(["outliers_gps", "kernel_columns"]), n_trials=1)}
    assert trials == {"outlier_samples": 3, "outlier_shapes": 1, "kernel_columns": 1, "local_coordinates": 1}
