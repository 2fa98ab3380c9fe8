"""Sample weights: integer weights give what repeated samples give."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.spatial import procrustes
from scipy.spatial.distance import pdist, squareform
from scipy.stats import ks_2samp
from sklearn.base import clone

import heatsketch as hs
from conftest import NORMALIZATIONS

RNG = np.random.default_rng(0)
N = 120
X = RNG.normal(size=(N, 3))
WEIGHTS = RNG.integers(1, 5, N)
# Repeated samples in a random order; sample i is the one at FIRST[i].
REPEATED = RNG.permutation(np.repeat(np.arange(N), WEIGHTS))
FIRST = np.unique(REPEATED, return_index=True)[1]
NEW = RNG.normal(size=(5, 3))
PAIRS = np.array([[0, 1], [5, 9], [3, 100], [50, 51]])
# Bandwidth and neighbours: the paper's kernel, every pair by a rule, and sparse ones.
KERNELS = [(0.5, None), ("self-tuning", None), ("median", None), ("auto", "auto"), ("slope", 20), (0.5, 10)]


def kernels(**options):
    """The kernels of weighted and of repeated samples."""
    return hs.heat_kernel(X, sample_weight=WEIGHTS, **options), hs.heat_kernel(X[REPEATED], **options)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize(("bandwidth", "n_neighbors"), KERNELS)
class TestKernel:
    @pytest.fixture
    def options(self, normalization, bandwidth, n_neighbors):
        return {"normalization": normalization, "bandwidth": bandwidth, "n_neighbors": n_neighbors, "tol": 1e-12}

    def test_kernel_acts_on_functions_alike(self, options):
        weighted, repeated = kernels(**options)
        f = RNG.normal(size=N)
        np.testing.assert_allclose(weighted @ f, (repeated @ f[REPEATED])[FIRST], atol=1e-10)

    def test_distances_agree(self, options):
        weighted, repeated = kernels(**options)
        for distances in (hs.diffusion_distances, hs.geodesic_distances):
            for power in (2.0, hs.multiscale(weighted)):
                there = distances(repeated, power, FIRST[PAIRS])
                np.testing.assert_allclose(distances(weighted, power, PAIRS), there, rtol=1e-8)

    def test_filters_agree(self, options):
        weighted, repeated = (hs.multiscale(A) for A in kernels(**options))
        assert weighted.times == repeated.times
        np.testing.assert_allclose(weighted.weights, repeated.weights, rtol=1e-8)

    def test_new_points_agree(self, options):
        """Diffusion maps of new points are the same, up to signs."""
        expert = {"kernel_params": {"tol": options.pop("tol")}, "power": 2}
        weighted = hs.DiffusionMaps(3, **options, **expert).fit(X, sample_weight=WEIGHTS)
        repeated = hs.DiffusionMaps(3, **options, **expert).fit(X[REPEATED])
        for here, there in (
            (weighted.embedding_, repeated.embedding_[FIRST]),
            (weighted.transform(NEW), repeated.transform(NEW)),
            (weighted.transform(X), weighted.embedding_),
        ):
            np.testing.assert_allclose(np.abs(here), np.abs(there), atol=1e-8 * np.abs(weighted.embedding_).max())


def test_filter_of_many_copies():
    """Traces are exact for few points, and estimated for more; copies do not count."""
    grid = np.random.default_rng(0).integers(0, 8, (1500, 2)).astype(float)
    X, counts = np.unique(grid, axis=0, return_counts=True)
    weighted, repeated = (hs.multiscale(A) for A in (hs.heat_kernel(X, sample_weight=counts), hs.heat_kernel(grid)))
    assert weighted.times == repeated.times
    np.testing.assert_allclose(weighted.weights, repeated.weights, rtol=1e-4)


def test_sketch_has_the_same_law():
    """Squared distances of many sketches have one distribution."""

    def squared(fit):
        seeds = range(200)
        found = [fit(hs.GaussianProcessEmbedding(2, power=2, bandwidth=0.5, random_state=s)) for s in seeds]
        return np.array([np.square(pdist(Y[[0, 7]]))[0] for Y in found])

    weighted = squared(lambda model: model.fit(X, sample_weight=WEIGHTS).embedding_)
    repeated = squared(lambda model: model.fit(X[REPEATED]).embedding_[FIRST])
    exact = hs.diffusion_distances(hs.heat_kernel(X, bandwidth=0.5, sample_weight=WEIGHTS), 2.0, [[0, 7]])[0]
    assert ks_2samp(weighted, repeated).pvalue > 0.01
    assert abs(weighted.mean() / exact**2 - 1) < 0.25  # the standard error is 7%


@pytest.mark.parametrize("estimator", [hs.HeatSketch, hs.GaussianProcessEmbedding, hs.DiffusionMaps])
def test_equal_weights_change_the_unit_alone(estimator):
    seeded = {} if estimator is hs.DiffusionMaps else {"random_state": 0}
    plain, heavy = (estimator(**seeded).fit(X, sample_weight=w).embedding_ for w in (None, np.full(N, 4.0)))
    np.testing.assert_allclose(pdist(plain), 2.0 * pdist(heavy), rtol=1e-3)


@pytest.mark.parametrize(
    "options", [{}, {"power": 4}, {"bandwidth": 0.2}, {"normalization": "symmetric"}, {"normalization": "stochastic"}]
)
def test_optimised_sketches_are_close(options):
    """They are equal in law only: their random numbers follow the order of the samples."""
    # Data of its own: of 60 fits to other noise, 57 are within the limit, and the largest difference is 0.23.
    t, noise = np.linspace(0.0, 3.0, N), np.random.default_rng(0).normal(size=(N, 3))
    curve = np.column_stack([np.cos(t), np.sin(t), 0.3 * t]) + 0.02 * noise
    weighted, repeated = hs.HeatSketch(random_state=0, **options), hs.HeatSketch(random_state=0, **options)
    Y, Z = weighted.fit(curve, sample_weight=WEIGHTS).embedding_, repeated.fit(curve[REPEATED]).embedding_[FIRST]
    assert procrustes(Y, Z)[2] < 0.1
    assert abs(np.log(np.median(pdist(Y) / pdist(Z)))) < 0.4  # a sketch of few columns sets the unit
    np.testing.assert_allclose(weighted.transform(curve), Y, atol=1e-5 * np.abs(Y).max())


def test_weights_of_repeated_samples_add_up():
    weights = RNG.uniform(0.5, 2.0, len(REPEATED))
    total = np.bincount(REPEATED, weights)
    merged = hs.heat_kernel(X, sample_weight=total, tol=1e-12)
    split = hs.heat_kernel(X[REPEATED], sample_weight=weights, tol=1e-12)
    here, there = (hs.diffusion_distances(A, 2.0, p) for A, p in ((merged, PAIRS), (split, FIRST[PAIRS])))
    np.testing.assert_allclose(here, there, rtol=1e-8)


def test_graph():
    K = sparse.csr_array(hs.heat_kernel(X, n_neighbors=8).affinity.operator.toarray())
    weighted = hs.heat_kernel(K, affinity="precomputed", sample_weight=WEIGHTS, tol=1e-12)
    repeated = hs.heat_kernel(K[REPEATED][:, REPEATED], affinity="precomputed", tol=1e-12)
    here, there = hs.diffusion_distances(weighted, 3.0, PAIRS), hs.diffusion_distances(repeated, 3.0, FIRST[PAIRS])
    np.testing.assert_allclose(here, there, rtol=1e-8)


def test_other_questions():
    model = hs.HeatSketch(random_state=0).fit(X, sample_weight=WEIGHTS)
    assert model.stability(n_repeats=2).kept.mean() > 0.3
    d, low, high = model.diffusion_distances(PAIRS, interval=0.99)
    exact = hs.diffusion_distances(model.kernel_, model.power_, PAIRS)
    assert ((low <= exact) & (exact <= high)).all()
    assert model.density_.shape == (N,)
    assert d.shape == (4,)


def test_saved_model_keeps_weights(tmp_path):
    model = hs.HeatSketch(random_state=0).fit(X, sample_weight=WEIGHTS)
    hs.save_model(model, tmp_path / "model.heatsketch")
    loaded = hs.load_model(tmp_path / "model.heatsketch")
    np.testing.assert_array_equal(loaded.transform(NEW), model.transform(NEW))


@pytest.mark.parametrize("wrong", [np.ones(3), np.ones((N, 1)), np.zeros(N), np.full(N, np.nan), ["a"] * N])
def test_wrong_weights(wrong):
    with pytest.raises(ValueError, match="weight"):
        hs.HeatSketch().fit(X, sample_weight=wrong)


class TestZeros:
    """Samples of weight 0 take no part in the fit, and are placed like new points."""

    ZEROS = np.where(np.arange(N) % 3 == 1, 0, WEIGHTS)
    SOME = ZEROS > 0
    MODELS = hs.GaussianProcessEmbedding(3, random_state=0), hs.DiffusionMaps(3), hs.HeatSketch(random_state=0)

    @pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
    @pytest.mark.parametrize("kind", ["points", "sparse", "distances", "affinities", "local scales"])
    def test_others_are_fitted(self, model, kind, tmp_path):
        D, some, options = squareform(pdist(X)), self.SOME, {}
        given = {"sparse": sparse.csr_array(X), "distances": D, "affinities": np.exp(-D)}.get(kind, X)
        part, new = given[some], given
        if kind in ("distances", "affinities"):
            options = {"metric": "precomputed"} if kind == "distances" else {"affinity": "precomputed"}
            part, new = given[some][:, some], given[:, some]
        scales = np.linspace(0.1, 0.3, N)
        local = kind == "local scales"
        whole = clone(model).set_params(**options | ({"bandwidth": scales} if local else {}))
        others = clone(model).set_params(**options | ({"bandwidth": scales[some]} if local else {}))
        whole.fit(given, sample_weight=self.ZEROS)
        others.fit(part, sample_weight=self.ZEROS[some])
        np.testing.assert_allclose(whole.embedding_[some], others.embedding_, atol=1e-10)
        np.testing.assert_allclose(whole.embedding_[~some], others.transform(new[~some]), atol=1e-10)
        np.testing.assert_allclose(whole.transform(given), whole.embedding_, atol=1e-9)
        apart = np.linalg.norm(whole.embedding_[1] - whole.embedding_[5])
        np.testing.assert_allclose(whole.diffusion_distances([[1, 5]]), apart)
        hs.save_model(whole, tmp_path / "model.heatsketch")
        loaded = hs.load_model(tmp_path / "model.heatsketch")
        np.testing.assert_allclose(loaded.transform(given), whole.embedding_, atol=1e-9)

    def test_labels_and_frames(self):
        frame = pd.DataFrame(X, index=[f"sample {i}" for i in range(N)])
        model = hs.HeatSketch(use_labels=True, random_state=0).fit(frame, np.arange(N) % 2, self.ZEROS)
        assert model.to_frame().index.equals(frame.index)
        np.testing.assert_allclose(model.inverse_transform(model.embedding_[self.SOME]), X[self.SOME], atol=1e-6)
        assert len(model.fit(X, np.arange(N) % 2).kernel_.toarray()) == N  # a new fit forgets the weights
        assert model.pseudotime(0).time.shape == (N,)

    def test_start_of_the_search_has_all_samples(self):
        init = RNG.normal(size=(N, 2))
        model = hs.HeatSketch(init=init, random_state=0).fit(X, sample_weight=self.ZEROS)
        others = hs.HeatSketch(init=init[self.SOME], random_state=0).fit(X[self.SOME], sample_weight=WEIGHTS[self.SOME])
        np.testing.assert_allclose(model.embedding_[self.SOME], others.embedding_, atol=1e-10)
        with pytest.raises(ValueError, match="80 rows for 120 samples"):
            model.set_params(init=init[self.SOME]).fit(X, sample_weight=self.ZEROS)

    def test_classes_of_other_samples_do_not_count(self):
        y = np.where(self.SOME, -1, np.arange(N))
        with pytest.raises(ValueError, match="labels of 0 classes"):
            hs.HeatSketch(use_labels=True).fit(X, y, self.ZEROS)

    @pytest.mark.parametrize(
        "question",
        [
            lambda model: model.diffusion_distances([[0, 2]], interval=0.9),
            lambda model: model.geodesic_distances(),
            lambda model: model.pseudotime(0),
            lambda model: model.unsupported_neighbors(),
            lambda model: model.stability(),
            lambda model: model.distortion(),
            lambda model: model.at_powers([2]),
            lambda model: model.add_components(1),
            lambda model: model.extend(NEW),
            hs.plot_distortion,
            hs.compare_embeddings,
            lambda model: hs.write_report(model, "page.html"),
        ],
    )
    def test_questions_about_all_samples(self, question):
        model = hs.DiffusionMaps(3).fit(X, sample_weight=self.ZEROS)
        with pytest.raises(ValueError, match="40 of 120 have the weight 0"):
            question(model)

    def test_attributes_of_all_samples(self):
        model = hs.DiffusionMaps(3).fit(X, sample_weight=self.ZEROS)
        with pytest.raises(AttributeError, match="40 of 120 have the weight 0"):
            _ = model.density_
        assert not hasattr(model, "density_")
        assert "transform" in dir(model)  # scikit-learn 1.9 calls hasattr for each name

    def test_at_least_two_positive_weights(self):
        with pytest.raises(ValueError, match="1 of 120 sample weights are positive"):
            hs.DiffusionMaps().fit(X, sample_weight=np.arange(N) == 3)
