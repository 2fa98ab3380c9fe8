"""Several data sets on the same items through one M."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.manifold import trustworthiness
from sklearn.metrics import silhouette_score

import heatsketch as hs
from heatsketch.layout.aligned import AlignedMixture
from heatsketch.layout.similarities import similarities_of
from heatsketch.linalg.filters import filtered

RNG = np.random.default_rng(0)
N = 200
X = hs.datasets.stretched_torus(N, random_state=0)
NOISY = X + 0.03 * RNG.normal(size=X.shape)
OTHER = X[:, ::-1] * 2.0
COPIES = np.vstack([X[:150], X[:50]])
GP, HS = hs.GaussianProcessEmbedding, hs.HeatSketch


def communities(group, rng):
    """A graph in which members of a group know each other more often than others."""
    edges = np.triu(rng.random((len(group), len(group))) < np.where(group[:, None] == group, 0.2, 0.004), 1)
    return sparse.csr_array((edges | edges.T).astype(float))


class TestGaussianProcess:
    @pytest.mark.parametrize("options", [{"bandwidth": 0.5, "power": 4}, {}])
    def test_each_is_a_fit_with_one_seed_and_filter(self, options):
        models = hs.fit_aligned(GP(4, random_state=7, **options), [X, NOISY])
        for model, data in zip(models, (X, NOISY), strict=True):
            alone = GP(4, random_state=7, **{**options, "power": models[0].power_}).fit(data)
            np.testing.assert_array_equal(model.embedding_, alone.embedding_)

    def test_distance_of_two_embeddings_is_the_global_diffusion_distance(self):
        first, second = hs.fit_aligned(GP(2000, random_state=0), [X, NOISY])
        A, B = (model.kernel_.toarray().astype(np.float64) for model in (first, second))
        h = [v @ np.diag(filtered(first.power_, w, 0.0)) @ v.T for w, v in map(np.linalg.eigh, (A, B))]
        exact = np.linalg.norm(h[0] - h[1])
        assert np.linalg.norm(first.embedding_ - second.embedding_) == pytest.approx(exact, rel=0.05)

    def test_order_of_data_sets_does_not_matter(self):
        line = np.linspace(0.0, 1.0, N)[:, None]
        cloud = RNG.normal(size=(N, 3))
        models = [hs.fit_aligned(GP(2, random_state=0), sets) for sets in ((line, cloud), (cloud, line))]
        np.testing.assert_array_equal(models[0][0].embedding_, models[1][1].embedding_)


class TestHeatSketch:
    def test_same_data_have_the_same_place(self):
        first, second = hs.fit_aligned(HS(random_state=0), [X, X])
        np.testing.assert_array_equal(first.embedding_, second.embedding_)

    def test_items_that_stay_have_one_place(self):
        changed = X.copy()
        changed[:10] += 3.0
        first, second = hs.fit_aligned(HS(random_state=0), [X, changed])
        moved = np.linalg.norm(first.embedding_ - second.embedding_, axis=1)
        radius = np.sqrt(np.square(first.embedding_ - first.embedding_.mean(axis=0)).sum(axis=1).mean())
        assert np.median(moved[10:]) < 0.2 * radius
        assert np.median(moved[:10]) > 3 * np.median(moved[10:])

    def test_embeddings_are_as_good_as_separate_ones(self):
        models = hs.fit_aligned(HS(random_state=0), [X, NOISY, OTHER])
        for model, data in zip(models, (X, NOISY, OTHER), strict=True):
            alone = HS(random_state=0).fit(data)
            here, there = (trustworthiness(data, one.embedding_, n_neighbors=15) for one in (model, alone))
            assert here > there - 0.03
            np.testing.assert_allclose(model.transform(data), model.embedding_, atol=1e-5)

    @pytest.mark.parametrize("seed", range(3))
    def test_communities_that_have_merged_are_not_shown_apart(self, seed):
        rng, before = np.random.default_rng(seed), np.repeat(np.arange(4), 50)
        graphs = [communities(group, rng) for group in (before, np.maximum(before, 1))]
        estimator = HS(affinity="precomputed", random_state=0)
        first, second = (model.embedding_ for model in hs.fit_aligned(estimator, graphs))
        apart, merged = (silhouette_score(Y[:100], before[:100]) for Y in (first, second))
        alone = silhouette_score(estimator.fit(graphs[1]).embedding_[:100], before[:100])
        assert merged < alone + 0.1
        assert apart > 0.7
        assert silhouette_score(second, np.maximum(before, 1)) > 0.7

    def test_clouds_that_have_merged_are_not_shown_apart(self):
        rng, before = np.random.default_rng(0), np.repeat(np.arange(4), 80)
        centres, noise = 3.0 * rng.normal(size=(4, 20)), rng.normal(size=(320, 20))
        after = np.maximum(before, 1)
        first, second = hs.fit_aligned(HS(random_state=0), [centres[before] + noise, centres[after] + noise[::-1]])
        assert silhouette_score(first.embedding_[:160], before[:160]) > 0.7
        assert silhouette_score(second.embedding_[:160], before[:160]) < 0.1

    def test_graphs_on_the_same_vertices(self):
        graphs = [sparse.csr_array(hs.heat_kernel(d, n_neighbors=8).affinity.operator.toarray()) for d in (X, NOISY)]
        first, second = hs.fit_aligned(HS(3, affinity="precomputed", random_state=0), graphs)
        assert first.embedding_.shape == second.embedding_.shape == (N, 3)
        assert np.corrcoef(first.embedding_[:, 0], second.embedding_[:, 0])[0, 1] > 0.9

    def test_saved_models(self, tmp_path):
        model = hs.fit_aligned(HS(random_state=0), [X, NOISY])[1]
        hs.save_model(model, tmp_path / "m.heatsketch")
        np.testing.assert_array_equal(hs.load_model(tmp_path / "m.heatsketch").transform(X), model.transform(X))


@pytest.mark.parametrize("datasets", [(X, NOISY), (X, COPIES), (X, NOISY, OTHER)])
def test_gradient_is_that_of_the_loss(datasets):
    kernels = [hs.heat_kernel(data) for data in datasets]
    h = hs.multiscale(kernels[0])
    parts = [similarities_of(kernel, h, 2, weight=1.0) for kernel in kernels]
    objective = AlignedMixture(parts, 1.0, 2, 0)
    Y = RNG.normal(size=(sum(len(part.scales) for part in parts), 2)).astype(np.float32)
    sizes = np.repeat([len(part.scales) for part in parts], [len(part.scales) for part in parts])
    slope = 4.0 * objective.gradient(Y) / sizes[:, None]
    direction = RNG.normal(size=Y.shape).astype(np.float32)
    values = []
    for step in (-1e-2, 1e-2):
        objective.gradient(Y + step * direction)
        values.append(objective.loss(Y + step * direction))
    assert (values[1] - values[0]) / 2e-2 == pytest.approx(np.vdot(slope, direction), rel=0.02)


@pytest.mark.parametrize(
    ("estimator", "datasets", "word"),
    [
        (GP(), [pd.DataFrame(X, index=list(range(1, N + 1))), pd.DataFrame(X, index=list(range(N, 0, -1)))], "names"),
        (GP(affinity="precomputed"), [nx.path_graph(20), nx.relabel_nodes(nx.path_graph(20), {3: 4, 4: 3})], "names"),
        (HS(init=X[:, :2]), [X, NOISY], "init"),
        (hs.DiffusionMaps(), [X, NOISY], "DiffusionMaps"),
        (GP(), [], "an empty list"),
        (GP(), X, "ndarray"),
        (GP(n_exact=2), [X, NOISY], "n_exact=0"),
        (GP(), [NOISY, pd.DataFrame(X), pd.DataFrame(X).sample(frac=1, random_state=0)], "other names"),
        (GP(), [X, X[:50]], "same item"),
        (HS(power=4), [X, NOISY], "power=4"),
        (HS(objective="bilipschitz"), [X, NOISY], "bilipschitz"),
        (HS(n_neighbors=None), [X, NOISY], "every pair"),
    ],
)
def test_wrong_input(estimator, datasets, word):
    with pytest.raises(ValueError, match=word):
        hs.fit_aligned(estimator, datasets)
