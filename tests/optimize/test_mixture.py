"""The mixture of neighbours and distances: forces, gradients, search spaces, and embeddings."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime
from scipy.spatial import procrustes
from scipy.spatial.distance import cdist, pdist
from sklearn.datasets import load_digits
from sklearn.manifold import trustworthiness

import heatsketch as hs
from conftest import NORMALIZATIONS
from heatsketch._utils.array import to_numpy
from heatsketch.optimize import mixture
from heatsketch.optimize.mixture import Steps, forces, log_distances, minimise
from heatsketch.optimize.spaces import FeatureSpace, KernelSpace, neighbor_graph, relative_scales, search_space

HS = hs.HeatSketch
N, K = 30, 3
DRAWN = np.array([0, 1, 7, 8, 22])
SOFTENED = 0.01


@pytest.fixture(scope="module")
def scene():
    """Features of which two rows coincide, a graph of neighbours, scales, and an embedding."""
    rng = np.random.default_rng(0)
    F = rng.normal(size=(N, 5)).astype(np.float32)
    F[1] = F[0]
    S = sparse.csr_array(rng.uniform(size=(N, N)) * (rng.uniform(size=(N, N)) < 0.3))
    graph, scales = neighbor_graph(S + S.T + sparse.eye_array(N)), rng.uniform(0.5, 2, N).astype(np.float32)
    return F, graph, scales, rng.normal(size=(N, K)).astype(np.float32)


def naive_forces(F, P, scales, Y, mean):
    """Attraction, repulsion and its total, stretching and the mean log ratio, pair by pair in float64."""
    F, P, Y = (np.asarray(part, dtype=np.float64) for part in (F, P.toarray(), Y))
    F = F / np.sqrt(np.square(F).sum(axis=1).mean())  # the unit of distances
    attraction, repulsion, stretching = np.zeros((3, *Y.shape))
    total, logs = 0.0, []
    for i in range(N):
        for j in range(N):
            between, d = Y[i] - Y[j], np.linalg.norm(F[i] - F[j])
            area = float(scales[i]) * float(scales[j])
            q = 1 / (1 + between @ between / area)
            attraction[i] += P[i, j] * q * between / area
            if j in DRAWN and i != j:
                repulsion[i] += q**2 * between / area
                total += q
            if j in DRAWN and d > 0:
                softened = between @ between + SOFTENED
                logs.append(0.5 * np.log(softened / d**2))
                stretching[i] += (logs[-1] - mean) * between / softened
    return attraction, (repulsion, total), (stretching, np.mean(logs))


def assert_forces_are_naive(between, scene, Y):
    F, graph, scales, _ = scene
    expected = naive_forces(F, graph, scales, to_numpy(Y), mean=0.3)
    found = between.attraction(Y), between.repulsion(Y, DRAWN), between.stretching(Y, SOFTENED, 0.3)
    np.testing.assert_allclose(to_numpy(found[0]), expected[0], atol=1e-5)
    for (force, number), (force_wanted, number_wanted) in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_allclose(to_numpy(force), force_wanted, atol=1e-5 * np.abs(force_wanted).max())
        assert number == pytest.approx(number_wanted, rel=1e-5)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_compiled_forces(scene, k):
    F, graph, scales, Y = scene
    assert_forces_are_naive(forces(F, graph, scales, DRAWN), scene, np.ascontiguousarray(Y[:, :k]))


def test_forces_on_a_device(scene, device, monkeypatch):
    F, graph, scales, Y = scene
    here = device.tensor(F), device.tensor(Y)
    for block in (1 << 26, 40):  # in one block of rows, and in many
        monkeypatch.setattr("heatsketch.backends.torch.forces._BLOCK", block)
        assert_forces_are_naive(forces(here[0], graph, scales, DRAWN), scene, here[1])


def test_one_outlier_keeps_its_neighbours():
    """Its entries of the kernel are so small that their squares vanish in float32."""
    S = np.eye(4) + np.array([[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1e-28], [0, 0, 1e-28, 0]])
    P = neighbor_graph(sparse.csr_array(S))
    assert P.toarray()[3, 2] == pytest.approx(4 * 1 / 8)
    assert neighbor_graph(sparse.eye_array(3)).nnz == 0


def test_log_distances_do_not_depend_on_the_unit(scene):
    """Features at late times are so small that their squares underflow in float32."""
    F, landmarks = scene[0].astype(np.float32), np.arange(5)
    expected = log_distances(F, landmarks)
    np.testing.assert_allclose(log_distances(F * np.float32(1e-24), landmarks), expected, rtol=1e-4, atol=1e-4)
    direct = np.log(((F[:, None] - F[landmarks]) ** 2).sum(axis=2).clip(1e-30))
    apart = expected > -100
    assert np.ptp((direct - expected)[apart]) < 1e-3


def test_neighbor_graph():
    S = np.array([[5.0, 2.0, 1.0, 0.0], [2.0, 5.0, 0.0, 0.0], [1.0, 0.0, 5.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    P = neighbor_graph(sparse.csr_array(S)).toarray()
    squares = np.array([[0, 0.8, 0.2, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    both = squares + squares.T
    np.testing.assert_allclose(P, 4 * both / both.sum(), rtol=1e-6)


def test_relative_scales():
    """Those of the affinity, within a factor of 4 of their median; 1 where it has none."""
    X = np.concatenate([np.random.default_rng(0).normal(size=(200, 3)), 1e3 * np.eye(3)])
    kernel, some = hs.heat_kernel(X), np.arange(20, 203)
    scales = np.sqrt(kernel.bandwidth[some])
    found = relative_scales(kernel, some)
    np.testing.assert_allclose(found[:-3], (scales / np.median(scales))[:-3], rtol=1e-6)
    np.testing.assert_array_equal(found[-3:], 4.0)
    for other in (hs.heat_kernel(X, bandwidth=1.0), hs.heat_kernel(np.ones((203, 203)), affinity="precomputed")):
        np.testing.assert_array_equal(relative_scales(other, some), np.ones(183))


class Recorded:
    """All embeddings, of which the first and its slope are recorded."""

    def __init__(self, features, graph, scales, start):
        self.features, self.graph, self.scales, self.start, self.slopes = features, graph, scales, start, []

    def embedding(self, Z):
        return Z

    def gradient(self, Z, slope):
        self.slopes.append((Z.copy(), slope.copy()))
        return slope

    def matrix(self, Z):
        return Z


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_slope_is_the_gradient_of_the_mixture(scene, weight, monkeypatch):
    """With all points drawn, and no factor of the attraction; distances to the point itself count as kept."""
    settings = {"_ATTRACTION": (1.0, 1.0), "_REPELLING": (N, N), "_LANDMARKS": (N, N, 0)}
    settings["_SOFTENED"] = SOFTENED, 0.0
    for name, value in settings.items():
        monkeypatch.setattr(mixture, name, value)
    F, graph, scales, _ = scene
    space = Recorded(*scene)
    minimise(space, weight, 0, Steps(1, 1.0, 0.0))
    Y, slope = space.slopes[0]
    P, d, (i, j) = graph.toarray() / N, cdist(F, F), np.nonzero(~np.eye(N, dtype=bool))
    apart, least = d > 0, SOFTENED * np.square(Y).mean()

    def objective(flat):
        D = cdist(flat.reshape(N, K), flat.reshape(N, K))
        q = 1 / (1 + D[i, j] ** 2 / (scales[i] * scales[j]))
        kept = P[i, j] > 0
        divergence = (P[i, j][kept] * np.log(P[i, j][kept] / (q / q.sum())[kept])).sum()
        logs = 0.5 * np.log((D[apart] ** 2 + least) / d[apart] ** 2)
        return weight * divergence + (1 - weight) * np.square(logs - logs.mean()).sum() / N**2

    numeric = approx_fprime(Y.ravel().astype(np.float64), objective, 1e-7).reshape(N, K)
    np.testing.assert_allclose(4 / N * slope, numeric, atol=1e-4 * np.abs(numeric).max())


@pytest.fixture(scope="module", params=[("bistochastic", 0), *((name, 10) for name in NORMALIZATIONS)], ids=str)
def kernel(request, torus):
    """For 300 points, some of which may be given several times."""
    normalization, n = request.param
    return hs.heat_kernel(np.vstack([torus, torus[: 3 * n], torus[:n]]), normalization=normalization)


@pytest.fixture(scope="module")
def space(kernel):
    return search_space(kernel, hs.multiscale(kernel), K, weight=0.5, init=None)


class TestKernelSpace:
    def test_gradient_is_adjoint_to_the_embedding(self, space):
        rng = np.random.default_rng(0)
        Z, slope = rng.normal(size=(2, 300, K)).astype(np.float32)
        assert isinstance(space, KernelSpace)
        expected = np.vdot(slope, space.embedding(Z))
        space.embedding(0 * Z)  # which has no roughness
        pulled = np.vdot(space.gradient(0 * Z, slope), Z)
        assert pulled == pytest.approx(expected, abs=1e-5 * float(np.linalg.norm(slope) * np.linalg.norm(Z)))

    def test_roughness(self, space, monkeypatch):
        """Its gradient is that of half the squared length of Z minus the smoothed Z."""
        rng = np.random.default_rng(0)
        Z, along = rng.normal(size=(2, 300, K)).astype(np.float32)
        monkeypatch.setattr("heatsketch.optimize.spaces._ROUGHNESS", 1.0)

        def half_square(step):
            moved = Z + np.float32(step) * along
            return 0.5 * np.square(moved - space._B.matmat(moved), dtype=np.float64).sum()

        numeric = (half_square(1) - half_square(-1)) / 2  # exact for a quadratic function
        space.embedding(Z)
        assert np.vdot(space.gradient(Z, 0 * Z), along) == pytest.approx(numeric, rel=1e-3, abs=1e-2)

    def test_matrix_gives_the_embedding(self, space, kernel):
        """Up to a shift, the sketch A M of all points is what was optimised, times the mean of the left factors."""
        Z = np.random.default_rng(0).normal(size=(300, K)).astype(np.float32)
        found, expected = kernel.place(space.matrix(Z)), space.embedding(Z)[kernel.graph().places]
        _, distinct = np.unique(kernel.graph().places, return_index=True)
        weight = 1.0 if kernel.row_weight is None else kernel.row_weight[distinct]
        expected = np.mean(weight / np.sqrt(kernel.graph().masses)) * expected
        np.testing.assert_allclose(found - found[0], expected - expected[0], atol=1e-4 * np.abs(expected).max())

    def test_given_start(self, kernel, space):
        init = np.random.default_rng(0).normal(size=(300, K))[kernel.graph().places]
        given = search_space(kernel, hs.multiscale(kernel), K, weight=0.5, init=init)
        Z = given.start if given._left is None else given._left * given.start
        centred = init - np.random.default_rng(0).normal(size=(300, K)).mean(axis=0)
        np.testing.assert_allclose(Z[kernel.graph().places], centred, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(given.features, space.features)

    def test_embeddings_are_about_as_long_as_their_parameters(self, space):
        """The lengths of steps are those of parameters."""
        Z = np.repeat(np.random.default_rng(0).normal(size=(1, K)), 300, axis=0).astype(np.float32)
        smooth = Z if space._left is None else Z / space._left
        assert np.linalg.norm(space.embedding(smooth)) == pytest.approx(np.linalg.norm(Z), rel=0.2)


@pytest.mark.parametrize("options", [{"bandwidth": 1.0}, {"power": 8}], ids=str)
def test_other_sketches_are_projections_of_a_wide_one(torus, options):
    model = HS(K, random_state=0, **options).fit(torus)
    space = search_space(model.kernel_, model.power_, K, weight=0.5, init=None)
    assert isinstance(space, FeatureSpace)
    Z, slope = np.random.default_rng(0).normal(size=(2, *space.start.shape)), np.ones((300, K), dtype=np.float32)
    assert np.vdot(space.gradient(Z[0], slope), Z[1]) == pytest.approx(np.vdot(slope, space.embedding(Z[1])), abs=1e-2)
    again = search_space(model.kernel_, model.power_, K, weight=0.5, init=to_numpy(space.embedding(space.start)))
    np.testing.assert_allclose(again.start, space.start, atol=1e-3 * np.abs(space.start).max())


@pytest.fixture(scope="module", params=NORMALIZATIONS)
def model(request, torus):
    return HS(K, normalization=request.param, random_state=0).fit(torus)


class TestHeatSketch:
    def test_training_and_new_points(self, model, torus):
        Y = model.embedding_
        np.testing.assert_allclose(model.transform(torus), Y, atol=1e-7 * np.ptp(Y))
        near = torus[:50] + 0.01 * np.random.default_rng(0).normal(size=(50, 4))
        moved = np.linalg.norm(model.transform(near) - Y[:50], axis=1)
        assert np.median(moved) < 0.05 * np.median(pdist(Y))

    def test_scale_and_axes(self, model):
        exact = hs.diffusion_distances(model.kernel_, model.power_)
        assert np.median(pdist(model.embedding_) / exact) == pytest.approx(1.0, abs=0.1)
        variances = model.embedding_.var(axis=0)
        np.testing.assert_allclose(variances, variances.mean(), rtol=1e-3)

    @pytest.mark.parametrize("options", [{}, {"bandwidth": 1.0}], ids=str)
    def test_threads_do_not_change_it(self, torus, options, monkeypatch):
        monkeypatch.setattr("heatsketch._utils.threads._cores", lambda: 2)
        monkeypatch.setattr("heatsketch._utils.threads._WORTHWHILE", 1)
        found = []
        for threads in ("1", "2"):
            monkeypatch.setenv("OMP_NUM_THREADS", threads)
            found.append(HS(2, random_state=0, **options).fit_transform(torus))
        np.testing.assert_array_equal(*found)

    @pytest.mark.parametrize("options", [{}, {"bandwidth": 1.0}], ids=str)
    def test_duplicates_have_equal_rows(self, torus, options):
        Y = HS(2, random_state=0, **options).fit_transform(np.vstack([torus, torus[:80], torus[:20]]))
        for rows in (slice(300, 380), slice(380, 400)):
            np.testing.assert_allclose(Y[rows], Y[: rows.stop - rows.start], atol=1e-9 * np.ptp(Y))

    def test_disconnected_clusters_stay_apart(self):
        X = np.random.default_rng(0).normal(size=(3, 100, 4)) + 1e3 * np.arange(3)[:, None, None]
        Y = HS(2, random_state=0).fit_transform(X.reshape(300, 4)).reshape(3, 100, 2)
        for a, b in ((0, 1), (0, 2), (1, 2)):
            assert cdist(Y[a], Y[b]).min() > max(np.median(pdist(Y[a])), np.median(pdist(Y[b])))

    @pytest.mark.parametrize("options", [{}, {"bandwidth": "median"}, {"n_neighbors": None}, {"power": 4}], ids=str)
    def test_neighbours_of_images_are_kept(self, options):
        X = load_digits().data[:400]
        assert trustworthiness(X, HS(2, random_state=0, **options).fit_transform(X), n_neighbors=15) > 0.92

    def test_distances_at_a_single_time(self):
        """The logarithms of embedded over diffusion distance vary little, in the plane."""
        model = HS(2, power=4, objective="log-stress", random_state=0).fit(load_digits().data[:200])
        ratios = pdist(model.embedding_) / hs.diffusion_distances(model.kernel_, 4)
        assert np.std(np.log(ratios)) < 0.53

    @pytest.mark.filterwarnings("error")
    def test_late_times_do_not_underflow(self):
        X = np.random.default_rng(0).normal(size=(100, 3))
        assert np.isfinite(HS(2, power=40, bandwidth=30.0, random_state=0).fit_transform(X)).all()

    @pytest.mark.filterwarnings("error")
    def test_many_copies_of_every_point(self):
        X = np.repeat(np.random.default_rng(0).normal(size=(40, 3)), 20, axis=0)
        Y = HS(2, bandwidth=2.0, random_state=0).fit_transform(X)
        assert np.ptp(Y) > 0
        np.testing.assert_allclose(Y[::20], Y[19::20], atol=1e-6 * np.ptp(Y))

    def test_seed_of_a_projection_changes_little(self, torus):
        """Distances and start are functions of the kernel."""
        first, second = (HS(2, power=8, random_state=seed).fit_transform(torus) for seed in range(2))
        assert procrustes(first, second)[2] < 0.05

    def test_dense_groups_are_drawn_dense(self):
        X = np.random.default_rng(0).normal(size=(2, 200, 4)) * np.array([1, 3])[:, None, None]
        X[1, :, 0] += 30
        dense, sparse_ = HS(2, random_state=0).fit_transform(X.reshape(400, 4)).reshape(2, 200, 2)
        assert np.median(pdist(sparse_)) > 2 * np.median(pdist(dense))

    def test_names_of_mixtures(self, torus):
        for objective, weight in {"neighbors": 1.0, "log-stress": 0.0}.items():
            named = HS(2, objective=objective, random_state=0).fit_transform(torus)
            np.testing.assert_array_equal(named, HS(2, neighbor_weight=weight, random_state=0).fit_transform(torus))

    def test_float32(self, torus):
        model = HS(2, random_state=0).fit(torus.astype(np.float32))
        assert model.embedding_.dtype == model.transform(torus[:3].astype(np.float32)).dtype == np.float32
