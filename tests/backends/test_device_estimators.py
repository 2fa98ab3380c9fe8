"""Estimators on a device, compared with the CPU, for arrays and for tensors."""

from __future__ import annotations

import gc
import json
import pickle
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.neighbors import NearestNeighbors

import heatsketch as hs
from conftest import NORMALIZATIONS, run_code
from heatsketch._utils import array
from parameters import folded

torch = pytest.importorskip("torch")
from heatsketch.backends.torch.operators import DeviceOperator  # noqa: E402

N = 150
GP, DM, HS = hs.GaussianProcessEmbedding, hs.DiffusionMaps, hs.HeatSketch
RNG = np.random.default_rng(0)
X = hs.datasets.stretched_torus(N, random_state=0)
NEW = np.vstack([X[:20] + 0.01 * RNG.normal(size=(20, X.shape[1])), X[:5]])
TOLERANCE = {np.float64: 1e-10, np.float32: 1e-5}


@pytest.fixture(params=[np.float64, np.float32])
def dtype(request):
    return request.param


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    """Let NumPy reject tensors on the CPU, as it rejects those on a GPU."""

    def refuse(self, *arguments, **options):
        raise TypeError("a tensor was given to NumPy")

    def asked_for(values, device):  # `to_numpy` is the only conversion
        return values.cpu().numpy() if torch.is_tensor(values) else to_device(values, device)

    to_device = array.to_device
    monkeypatch.setattr(array, "to_device", asked_for)
    monkeypatch.setattr(torch.Tensor, "__array__", refuse)


@pytest.fixture
def where(device):
    """The device as users call it."""
    return device.name if device.is_cuda else "torch-cpu"


def _close(found, expected, dtype, device, factor=1.0):
    """Equal up to rounding, relative to the largest entry; the fused kernels of a GPU round more."""
    fused = 30.0 if device.is_cuda and dtype is np.float32 else 1.0
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert np.abs(found - expected).max() <= factor * fused * TOLERANCE[dtype] * np.abs(expected).max()


def _graph():
    """A ring with chords, as a sparse matrix."""
    i = np.arange(N)
    W = sparse.coo_array((np.ones(2 * N), (np.r_[i, i], np.r_[(i + 1) % N, (7 * i + 3) % N])), shape=(N, N))
    W = sparse.csr_array(W + W.T)
    W.setdiag(0.0)
    W.eliminate_zeros()
    return W


def _affinity():
    K = np.exp(-np.square(X[:, None] - X[None]).sum(axis=2))
    return (K + K.T) / 2


def _duplicates():
    return np.vstack([X[:120], X[:30]])


def _sparse_points():
    return sparse.csr_array(np.where(np.abs(X) > 0.4, X, 0.0))


# X and the options of the estimator; the bandwidth is one number for every pair, unless the options say otherwise.
SETTINGS = {
    "defaults": (lambda: X, {"bandwidth": "auto"}),
    **{name: (lambda: X, {"normalization": name}) for name in NORMALIZATIONS},
    "every pair": (lambda: X, {"n_neighbors": None, "bandwidth": 0.5}),
    "neighbours": (lambda: X, {"n_neighbors": 12}),
    "exact directions": (lambda: X, {"n_exact": 2}),
    "real power": (lambda: X, {"power": 2.5}),
    "large power": (lambda: X, {"power": 300.0}),
    "all times": (lambda: X, {"power": "multiscale", "bandwidth": "auto"}),
    "signs": (lambda: X, {"sketch": "rademacher"}),
    "zero diagonal": (lambda: X, {"diagonal": "zero"}),
    "self-tuning, every pair": (lambda: X, {"bandwidth": "self-tuning", "n_neighbors": None}),
    "self-tuning, 12 neighbours": (lambda: X, {"bandwidth": "self-tuning", "n_neighbors": 12}),
    "given scales": (lambda: X, {"bandwidth": np.linspace(0.1, 0.2, N)}),
    "bandwidth by slope": (lambda: X, {"bandwidth": "slope"}),
    "duplicates": (_duplicates, {}),
    "duplicates, zero diagonal": (_duplicates, {"diagonal": "zero"}),
    "duplicates, neighbours": (_duplicates, {"n_neighbors": 12}),
    "sparse points": (_sparse_points, {}),
    "sparse points, neighbours": (_sparse_points, {"n_neighbors": 12}),
    "other metric, neighbours": (lambda: X, {"metric": "cosine", "n_neighbors": 12}),
    "cutoff": (lambda: X, {"cutoff": 1e-4}),
    "precomputed distances": (lambda: np.sqrt(np.square(X[:, None] - X[None]).sum(axis=2)), {"metric": "precomputed"}),
    "precomputed": (_affinity, {"affinity": "precomputed"}),
    "precomputed, sparse": (_graph, {"affinity": "precomputed"}),
}
# Eigenvectors depend on the tolerance of a solver, and a large power amplifies rounding.
LOOSER = {"all times": 30.0, "exact directions": 1e3, "large power": 30.0}


@pytest.mark.parametrize("name", SETTINGS)
def test_gaussian_processes(name, dtype, device, where):
    make, options = SETTINGS[name]
    data = make().astype(dtype)
    options = {"n_components": 4, "power": 6, "bandwidth": "neighbor", "random_state": 0, **options}
    here, there = (GP(**folded(options), device=place).fit(data) for place in ("cpu", where))
    assert here.kernel_.device is None
    assert there.kernel_.device == device
    if name == "all times":
        assert there.power_.times == here.power_.times
        rtol = 1e-3 if dtype is np.float32 else 1e-6
        np.testing.assert_allclose(there.power_.weights, here.power_.weights, rtol=rtol)
    assert there.n_neighbors_ == here.n_neighbors_
    factor = LOOSER.get(name, 1.0)
    _close(there.embedding_, here.embedding_, dtype, device, factor)
    new = data[:25]
    if data.shape == X.shape and not sparse.issparse(data):
        new = NEW.astype(dtype)
    _close(there.transform(new), here.transform(new), dtype, device, 3 * factor)
    training = there.transform(data)
    assert np.abs(training - there.embedding_).max() <= 3e-4 * np.abs(there.embedding_).max()


@pytest.mark.parametrize("options", [{}, {"bandwidth": 0.5, "n_neighbors": None}, {"normalization": "symmetric"}])
def test_sample_weights(options, dtype, device, where):
    weights, data = np.random.default_rng(1).integers(1, 4, N), X.astype(dtype)
    settings = {"n_components": 4, "power": 6, "random_state": 0, **options}
    here, there = (GP(**settings, device=place).fit(data, sample_weight=weights) for place in ("cpu", where))
    _close(there.embedding_, here.embedding_, dtype, device)
    _close(there.transform(NEW.astype(dtype)), here.transform(NEW.astype(dtype)), dtype, device, 3)
    optimised = HS(3, random_state=0, device=where, **options).fit(data, sample_weight=weights)
    placed = optimised.transform(data)
    assert np.abs(placed - optimised.embedding_).max() <= 3e-4 * np.abs(optimised.embedding_).max()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bandwidth": 0.5},
        {"n_neighbors": 12},
        {"solver": "randomized"},
        {"solver": "arpack"},
        {"normalization": "stochastic"},
    ],
)
def test_diffusion_maps(options, dtype, device, where):
    here, there = (DM(3, power=4, device=place, **options).fit(X.astype(dtype)) for place in ("cpu", where))
    np.testing.assert_allclose(there.eigenvalues_, here.eigenvalues_, rtol=1e-3 if dtype is np.float32 else 1e-8)
    for pair in ((there.embedding_, here.embedding_), (there.transform(NEW), here.transform(NEW))):
        # Eigenvectors of a simple eigenvalue, with their signs.
        _close(pair[0][:, :1], pair[1][:, :1], dtype, device, 1e3)
    d, expected = (model.diffusion_distances() for model in (there, here))
    np.testing.assert_allclose(d, expected, atol=(1e-2 if dtype is np.float32 else 1e-6) * expected.max())


@pytest.mark.parametrize("options", [{}, {"bandwidth": 0.5}])
def test_worst_distortion(options, dtype, device, where):
    """Rounding changes the path of the optimisation: as good, not the same."""
    settings = {"n_components": 3, "power": 4, "objective": "bilipschitz", "random_state": 0, **options}
    here, there = (HS(**settings, device=place).fit(X.astype(dtype)) for place in ("cpu", where))
    assert there.embedding_.dtype == dtype
    assert there.distortion().constant < 1.1 * here.distortion().constant
    placed = there.transform(X.astype(dtype))
    assert np.abs(placed - there.embedding_).max() <= 3e-4 * np.abs(there.embedding_).max()


def _share_of_neighbors(Y, k=10):
    """Share of the k nearest neighbours in X that are among those in Y."""
    near, found = (NearestNeighbors(n_neighbors=k).fit(Z).kneighbors(return_distance=False) for Z in (X, Y))
    return np.mean([len(np.intersect1d(a, b)) / k for a, b in zip(near, found, strict=True)])


@pytest.mark.parametrize("options", [{}, {"normalization": "stochastic"}, {"bandwidth": 0.5}, {"power": 4}])
def test_heat_sketch(options, dtype, device, where):
    """As good as on the CPU by neighbours and by distances, not the same."""
    here, there = (HS(3, random_state=0, device=place, **options).fit(X.astype(dtype)) for place in ("cpu", where))
    assert there.embedding_.dtype == dtype
    shares = [_share_of_neighbors(model.embedding_) for model in (there, here)]
    assert abs(shares[0] - shares[1]) < 0.05
    exact = hs.diffusion_distances(here.kernel_, here.power_)
    spreads = [np.log(pdist(model.embedding_) / exact).std() for model in (there, here)]
    assert abs(spreads[0] - spreads[1]) < 0.05
    placed = there.transform(X.astype(dtype))
    assert np.abs(placed - there.embedding_).max() <= 3e-4 * np.abs(there.embedding_).max()


# Estimators with a fast fit.
FAST = {
    "GaussianProcessEmbedding": partial(GP, 4, power=4, random_state=0),
    "DiffusionMaps": partial(DM, 4, power=4),
    "HeatSketch": partial(HS, 4, random_state=0),
}


@pytest.fixture(params=FAST)
def make(request):
    return FAST[request.param]


def test_fits_repeat(device, where):
    """Sums on a GPU have one order."""
    points = RNG.normal(size=(3000, 8)).astype(np.float32)
    for make in (GP, DM, HS):
        options = {"device": where} | ({} if make is DM else {"random_state": 0})
        first, second = (make(2, **options).fit_transform(points) for _ in range(2))
        np.testing.assert_array_equal(first, second)


class Exchanged:
    """An array of which nothing is known but how to exchange it."""

    def __init__(self, tensor):
        self._tensor = tensor

    def __dlpack__(self, **options):
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()


class TestDLPack:
    def test_arrays_that_can_only_be_exchanged(self, make, device, where):
        given, new = Exchanged(device.tensor(X)), Exchanged(device.tensor(NEW))
        model, expected = make(device=where), make(device=where)
        arrays = expected.fit_transform(X)
        for found, same in (
            (model.fit_transform(given), arrays),
            (model.embedding_, arrays),
            (model.transform(new), expected.transform(NEW)),
        ):
            assert (found.device.type == "cuda") if device.is_cuda else isinstance(found, np.ndarray)
            np.testing.assert_allclose(array.to_numpy(found), same, atol=1e-8 * np.abs(same).max())
        np.testing.assert_allclose(hs.heat_kernel(given, device=where) @ X, hs.heat_kernel(X, device=where) @ X)

    def test_gpu_of_the_array_is_used_without_a_copy(self, device):
        if not device.is_cuda:
            pytest.skip("arrays in memory stay there")
        tensor = device.tensor(RNG.normal(size=(N, 8)))
        for given in (tensor, Exchanged(tensor)):
            model = GP(3, random_state=0, n_neighbors=10).fit(given)
            assert model.kernel_.device == device
            assert model.kernel_.affinity.neighborhoods.index._there.data_ptr() == tensor.data_ptr()

    def test_cupy(self, make, device):
        cupy = pytest.importorskip("cupy")
        if not device.is_cuda:
            pytest.skip("CuPy has no arrays in memory")
        model, expected = make(), make(device="cuda")
        found, same = model.fit_transform(cupy.asarray(X)), expected.fit_transform(X)
        assert isinstance(found, cupy.ndarray)
        assert isinstance(model.transform(cupy.asarray(NEW)), cupy.ndarray)
        np.testing.assert_allclose(found.get(), same, atol=1e-8 * np.abs(same).max())
        pairs = [[0, 1], [7, 100]]
        np.testing.assert_allclose(model.diffusion_distances(pairs), expected.diffusion_distances(pairs), rtol=1e-6)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.transform(NEW), model.transform(NEW))

    def test_the_memory_of_a_table_is_freed(self, device):
        from heatsketch.backends.torch.tensors import _copies  # noqa: PLC0415

        gc.collect()
        before = len(_copies)
        GP(3, random_state=0).fit(device.tensor(X))
        gc.collect()
        assert len(_copies) == before


class TestTensors:
    @pytest.mark.parametrize("place", ["where", "cpu"])
    def test_in_and_out(self, make, device, where, dtype, place):
        """Results are tensors on the device and of the dtype of X, wherever they are computed."""
        given, new = device.tensor(X, dtype), device.tensor(NEW, dtype)
        model, expected = (make(device=where if place == "where" else "cpu") for _ in range(2))
        fitted, arrays = model.fit_transform(given), expected.fit_transform(X.astype(dtype))
        for found, same in (
            (fitted, arrays),
            (model.embedding_, arrays),
            (model.transform(new), expected.transform(NEW.astype(dtype))),
            (model.at_powers([1, 2]), expected.at_powers([1, 2])),
        ):
            assert torch.is_tensor(found)
            assert (found.device, found.dtype) == (given.device, given.dtype)
            np.testing.assert_allclose(found.cpu().numpy(), same, atol=1e-5 * np.abs(same).max())
        assert isinstance(model.transform(NEW.astype(dtype)), np.ndarray)
        assert torch.is_tensor(expected.transform(new))

    def test_detached_floats(self, device, where):
        model = GP(3, random_state=0, device=where)
        assert not model.fit_transform(device.tensor(X).requires_grad_()).requires_grad
        assert model.fit_transform(device.tensor((10 * X).astype(np.int64))).dtype == torch.float64

    def test_auto_computes_on_the_device_of_x(self, device):
        model = GP(3, random_state=0).fit(device.tensor(X))
        assert model.kernel_.device == (device if device.is_cuda else None)

    def test_answers(self, make, device, where):
        """Methods of a fitted model return arrays, also if it was fitted to a tensor."""
        model, other = make(device=where).fit(device.tensor(X)), make(device=where).fit(X)
        pairs = [[0, 1], [2, 3], [7, 100]]
        for found, expected in (
            (model.diffusion_distances(pairs), other.diffusion_distances(pairs)),
            (model.diffusion_distances(pairs, interval=0.9), other.diffusion_distances(pairs, interval=0.9)),
            (model.distortion().constant, other.distortion().constant),
            (model.distortion(device.tensor(NEW[:20])).constant, other.distortion(NEW[:20]).constant),
        ):
            assert not torch.is_tensor(found)
            np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert model.unsupported_neighbors(5).share.shape == (N,)
        assert isinstance(model.to_dict()[3], np.ndarray)
        assert isinstance(model.scales([1, 2, 4]).powers, np.ndarray)
        assert model.diagnose().names == other.diagnose().names

    def test_more_components(self, make, device, where):
        model, other = make(device=where).fit(device.tensor(X)), make(device=where).fit(X)
        for fitted in (model, other):
            fitted.add_components(2)
        assert torch.is_tensor(model.embedding_)
        assert tuple(model.embedding_.shape) == (N, 6)
        found = model.embedding_.cpu().numpy()
        np.testing.assert_allclose(found, other.embedding_, atol=1e-6 * np.abs(found).max())
        assert tuple(model.transform(device.tensor(NEW)).shape) == (25, 6)

    def test_pandas_output(self, device, where):
        pandas = pytest.importorskip("pandas")
        model = GP(3, random_state=0, device=where).set_output(transform="pandas")
        frame, of_tensor = model.fit_transform(X), model.fit_transform(device.tensor(X))
        assert isinstance(of_tensor, pandas.DataFrame)
        np.testing.assert_array_equal(of_tensor.to_numpy(), frame.to_numpy())
        assert isinstance(model.transform(device.tensor(NEW)), pandas.DataFrame)


def test_out(make, device, where):
    given, out = device.tensor(X, np.float32), np.empty((N, 4), dtype=np.float32)
    model = make(device=where)
    assert model.fit_transform(given, out=out) is out
    assert model.embedding_ is out
    np.testing.assert_array_equal(out, make(device=where).fit_transform(X.astype(np.float32)))
    placed = np.empty((25, 4), dtype=np.float32)
    model.transform(NEW.astype(np.float32), out=placed)
    np.testing.assert_array_equal(placed, model.transform(NEW.astype(np.float32)))


@pytest.mark.parametrize(
    "options", [{}, {"bandwidth": 0.5}, {"n_neighbors": None}, {"bandwidth": np.linspace(0.1, 0.2, N)}], ids=str
)
def test_pickle_and_files(options, device, where, tmp_path, dtype):
    model = GP(4, power=4, random_state=0, device=where, **options).fit(device.tensor(X, dtype))
    hs.save_model(model, tmp_path / "model")
    for again in (pickle.loads(pickle.dumps(model)), hs.load_model(tmp_path / "model")):
        found, expected = (m.transform(NEW.astype(dtype)) for m in (again, model))
        np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
        np.testing.assert_array_equal(array.to_numpy(again.embedding_), array.to_numpy(model.embedding_))


_LOAD = """
import importlib.abc, json, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, Absent())
import numpy as np, heatsketch as hs
new, models = np.load(sys.argv[1]), [hs.load_model(name) for name in sys.argv[2:]]
print(json.dumps([[str(model.kernel_.device), model.transform(new).tolist()] for model in models]))
"""


def test_models_load_without_pytorch(device, where, tmp_path):
    settings = [*((make, {}) for make in FAST.values()), (FAST["GaussianProcessEmbedding"], {"bandwidth": 0.5})]
    models = [make(device=where, **options).fit(device.tensor(X)) for make, options in settings]
    files = [tmp_path / f"model{number}" for number in range(len(models))]
    for model, file in zip(models, files, strict=True):
        hs.save_model(model, file)
    np.save(tmp_path / "new.npy", NEW)
    loaded = json.loads(run_code(_LOAD, tmp_path / "new.npy", *files).stdout)
    for model, (kind, found) in zip(models, loaded, strict=True):
        assert kind == "None"
        expected = model.transform(NEW)
        np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())


def test_diagnosis_reads_the_graph_of_a_device(where):
    fits = [
        hs.GaussianProcessEmbedding(2, n_neighbors=8, random_state=0, device=place).fit(X) for place in (where, "cpu")
    ]
    there, here = (model.kernel_ for model in fits)
    np.testing.assert_array_equal(there.row_counts(), here.row_counts())
    np.testing.assert_array_equal(there.components(), here.components())


def test_kernels(device, where, dtype):
    given = device.tensor(X, dtype)
    here, there = hs.heat_kernel(X.astype(dtype), device="cpu"), hs.heat_kernel(given, device=where)
    assert there.device == device
    assert isinstance(there.symmetric.operator, DeviceOperator)
    V = RNG.normal(size=(N, 5)).astype(dtype)
    _close(there @ V, here @ V, dtype, device)
    assert torch.is_tensor(there @ device.tensor(V))
    _close(there.toarray(), here.toarray(), dtype, device)
    assert device.chip in there.affinity.description
    assert hs.estimate(X.shape, device=where).n_samples == N


OTHER = hs.heat_kernel(X, bandwidth=2.0, device="cpu")


@pytest.mark.parametrize(
    "ask",
    [
        lambda kernel: hs.diffusion_distances(kernel, 4.0),
        lambda kernel: hs.diffusion_distances(kernel, 4.0, pairs=[[0, 1], [3, 90]]),
        lambda kernel: hs.gaussian_process(kernel, 3, power=4.0, random_state=0),
        lambda kernel: hs.gaussian_process(kernel, 3, power=4.0, method="karhunen-loeve", n_terms=5, random_state=0),
        hs.canonical_metric,
        lambda kernel: hs.secant_products(kernel, 4.0, [[0, 1, 2], [2, 3, 4]]),
        lambda kernel: hs.spectral_density(kernel, n_columns=2, n_steps=8).weights,
        lambda kernel: hs.compare_kernels(kernel, OTHER, 2.0, random_state=0).item_distances,
        lambda kernel: hs.global_diffusion_distance(OTHER, kernel, 2.0, random_state=0).distance,
    ],
)
def test_functions_of_kernels(ask, where):
    found, expected = (ask(hs.heat_kernel(X, device=place)) for place in (where, "cpu"))
    assert not torch.is_tensor(found)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
