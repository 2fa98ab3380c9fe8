"""Nearest neighbours on a device, compared with differences of all pairs in float64."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import heatsketch as hs
from heatsketch._utils.array import to_numpy
from heatsketch.linalg.metrics import Metric
from heatsketch.neighbors.neighborhoods import Neighborhoods
from heatsketch.neighbors.search import index_kind, make_index, nearest_neighbors

torch = pytest.importorskip("torch")
from heatsketch.backends.torch import nearest as module  # noqa: E402
from heatsketch.backends.torch.device import Device  # noqa: E402
from heatsketch.backends.torch.operators import fused_kernels  # noqa: E402

RNG = np.random.default_rng(0)


def nearest(*args, **options):
    """Neighbours in memory."""
    return tuple(to_numpy(part) for part in module.nearest(*args, **options))


def truth(Q, X, k, itself=False):
    """By differences in float64, ties in increasing order."""
    Q, X = Q.astype(np.float64), X.astype(np.float64)
    D2 = np.stack([np.square(q - X).sum(axis=1) for q in Q])
    if itself:
        np.fill_diagonal(D2, np.inf)
    ids = np.argsort(D2, axis=1, kind="stable")[:, :k]
    return ids, np.take_along_axis(D2, ids, axis=1)


def grid(side, d):
    return np.stack(np.meshgrid(*[np.arange(float(side))] * d), axis=-1).reshape(-1, d)


def groups(d, apart, size=1.0, n=300, seed=1):
    """Points around two places."""
    rng = np.random.default_rng(seed)
    return size * rng.normal(size=(n, d)) + apart * rng.integers(2, size=(n, 1))


HOSTILE = {
    "a cloud": RNG.normal(size=(500, 20)),
    "a line": RNG.normal(size=(500, 1)),
    "a plane": RNG.normal(size=(500, 2)),
    "many features": RNG.normal(size=(200, 600)),
    "a tight cluster far from the origin": 1e4 + groups(10, 0.0, 1e-2),
    "two clusters far apart": groups(10, 1e6),
    "two clusters far apart, few features": groups(3, 1e6),
    "clusters that float64 products cannot resolve": groups(10, 1.0, 1e-9),
    "an outlier": np.vstack([RNG.normal(size=(300, 7)), np.full((1, 7), 1e18)]),
    "huge": 1e17 * RNG.normal(size=(300, 8)),
    "tiny": 1e-17 * RNG.normal(size=(300, 8)),
    "a grid": grid(8, 3),
    "a grid in many dimensions": grid(2, 8),
    "few distinct points": np.repeat(RNG.normal(size=(7, 6)), 40, axis=0),
    "one point": np.ones((60, 5)),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact_for_hard_data(name, dtype, device, monkeypatch):
    X = HOSTILE[name].astype(dtype)
    if device.name == "cpu":  # small tiles, so that there are many
        monkeypatch.setattr(module, "_TILE_BYTES", {"cpu": 60_000})
    step = dtype(2.0 ** np.floor(np.log2(np.median(np.abs(X))) - 2))  # moves integers exactly
    for k in (1, 9):
        for Q, itself in ((X, True), (X[::7] + step, False)):
            ids, squared = nearest(device, Q, X, k, itself=itself)
            expected, distances = truth(Q, X, k, itself)
            np.testing.assert_allclose(squared, distances, rtol=1e-13)
            # Sums of squares round differently in another order; without such near ties the indices are equal.
            differ = ids != expected
            if "grid" in name or "point" in name:
                assert not differ.any()
            own = np.square(Q[:, None].astype(float) - X[ids].astype(float)).sum(axis=2)
            np.testing.assert_allclose(own, distances, rtol=1e-13)
            assert differ.mean() < 0.01
            assert (np.diff(np.sort(ids, axis=1), axis=1) > 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 4, 5, 64])
@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-6])
def test_bound_is_valid_and_tight(d, dtype, spread, device):
    """No pair is nearer than the approximate distances allow."""
    X = (1.0 + spread * np.random.default_rng(d).normal(size=(300, d))).astype(dtype)
    X[150:] *= 2.0
    there = device.tensor(X)
    job = module._Job(there, there, 1, True, 1 << 20)
    true = truth(X, X, 300, itself=True)
    D2 = torch.from_numpy(np.take_along_axis(true[1], np.argsort(true[0], axis=1), axis=1))
    D2.fill_diagonal_(0.0)
    for way in module._ways(job, 0)[:-1]:
        placed = module._Placed(job, way, torch.arange(300, device=there.device))
        approximate = placed.distances(slice(0, 300), slice(0, 300)).cpu()
        rows = slice(0, 300)
        for column in range(0, 300, 17):
            # If the bound placed the pair itself farther away than it is, a neighbour could be missed.
            kept, kth = approximate[:, column].to(device.name), D2[:, column].to(device.name)
            assert not placed.proved(rows, kept, kth).any()
            if spread == 1.0:
                apart = kth > 0.1
                assert placed.proved(rows, kept, 0.9 * kth)[apart].all()


def test_only_unproved_rows_are_searched_again(device, monkeypatch):
    searched = []
    search = module._search

    def counted(job, way, rows, *rest):
        searched.append((way.dtype, way.last, len(rows)))
        return search(job, way, rows, *rest)

    monkeypatch.setattr(module, "_search", counted)
    for size in (1e-30, 1.0, 1e30):
        X = size * HOSTILE["a cloud"]
        nearest(device, X, X, 5, itself=True)
        assert searched == [(torch.float32, False, 500)]
        searched.clear()
    X = groups(10, 1e6)  # the centre is in one cluster, where float32 is enough
    nearest(device, X, X, 5, itself=True)
    far = int(min((X[:, 0] > 5e5).sum(), (X[:, 0] < 5e5).sum()))
    assert searched == [(torch.float32, False, 300), (torch.float64, False, far)]
    searched.clear()
    X = grid(2, 8)
    nearest(device, X, X, 9, itself=True)  # eight at distance 1, the next 28 tie
    assert searched[-1] == (torch.float64, True, 256)


class TestFusedSearch:
    """The fused programs: on a GPU, and interpreted by `tests/slow/test_triton.py`."""

    @pytest.fixture(autouse=True)
    def few(self, device, monkeypatch):
        if not fused_kernels(device):
            pytest.skip("Triton does not compile for this device")
        monkeypatch.setattr(module, "_MANY", 500)
        monkeypatch.setattr(module, "_MANY_QUERIES", 1)
        monkeypatch.setattr(module, "_MORE_GROUPS", 1)
        self.device, self.searched, search = device, [], module._search

        def counted(job, way, rows, *rest):
            self.searched.append((way.dtype, len(rows)))
            return search(job, way, rows, *rest)

        monkeypatch.setattr(module, "_search", counted)

    @pytest.mark.parametrize(("d", "dtype"), [(5, np.float64), (23, np.float32), (100, np.float32)])
    def test_clouds_need_one_search(self, d, dtype):
        rng = np.random.default_rng(d)
        X = (7.0 + 3.0 * rng.normal(size=(1301, d))).astype(dtype)
        Q = (7.0 + 4.0 * rng.normal(size=(40, d))).astype(dtype)
        ids, squared = nearest(self.device, Q, X, 6)
        expected, distances = truth(Q, X, 6)
        np.testing.assert_array_equal(ids, expected)
        np.testing.assert_allclose(squared, distances, rtol=1e-13)
        assert self.searched[0] == (torch.float16, 40)
        assert sum(count for _, count in self.searched[1:]) < 4

    def test_points_are_not_their_own_neighbours(self):
        X = np.random.default_rng(9).normal(size=(513, 7))
        ids, squared = nearest(self.device, X, X, 3, itself=True)
        expected, distances = truth(X, X, 3, itself=True)
        np.testing.assert_array_equal(ids, expected)
        np.testing.assert_allclose(squared, distances, rtol=1e-13)
        assert sum(count for _, count in self.searched[1:]) < 30

    @pytest.mark.parametrize("name", ["outlier", "duplicates", "tiny", "huge", "far clusters", "grid", "close"])
    def test_hard_data(self, name):
        rng = np.random.default_rng(3)
        X = rng.normal(size=(1100, 6))
        if name == "outlier":
            X[7] = 1e18
        elif name == "duplicates":
            X[300:600] = X[:300]
        elif name in ("tiny", "huge"):
            X *= {"tiny": 1e-17, "huge": 1e17}[name]
        elif name == "far clusters":
            X[500:] += 1e4
        elif name == "grid":
            X = np.rint(2.0 * X)
        elif name == "close":
            X = 1.0 + 1e-9 * X
        Q = X[::40]
        ids, squared = nearest(self.device, Q, X, 9)
        distances = truth(Q, X, 9)[1]
        np.testing.assert_allclose(squared, distances, rtol=1e-13)
        np.testing.assert_allclose(np.square(Q[:, None] - X[ids]).sum(axis=2), distances, rtol=1e-13)
        assert (np.diff(np.sort(ids, axis=1), axis=1) > 0).all()

    @pytest.mark.parametrize("spread", [1.0, 1e-2])
    def test_bound_is_valid(self, spread):
        """No group has a point nearer than its minimum allows."""
        from heatsketch.backends.torch.grouped import RUN  # noqa: PLC0415

        X = 1.0 + spread * np.random.default_rng(4).normal(size=(1200, 9))
        X[600:] *= 2.0
        there = self.device.tensor(X)
        job = module._Job(there, there, 1, True, 1 << 20)
        placed = module._Grouped(job, torch.arange(len(X), device=there.device))
        order = to_numpy(placed._groups.order)
        x = placed._place(there[::40])
        norms = to_numpy(x.square().sum(1))
        found = norms[:, None] + 2.0 * to_numpy(placed._groups.minima(x))[:, : len(X) // RUN]
        D2 = np.stack([np.square(q - X[order]).sum(axis=1) for q in X[::40]]) * placed.factor**2
        true = D2[:, : len(X) // RUN * RUN].reshape(len(D2), -1, RUN).min(axis=2)
        bound = placed._unit * (3.0 * norms[:, None] + 2.0 * true) + placed._lost
        assert (np.abs(found - true) <= bound).all()


def test_any_number_of_queries_points_and_neighbours(device):
    X = RNG.normal(size=(12, 6))
    for n in (2, 5, 12):
        for k in range(1, n):
            np.testing.assert_array_equal(
                nearest(device, X[:n], X[:n], k, itself=True)[0], truth(X[:n], X[:n], k, True)[0]
            )
    ids, _ = nearest(device, X[:3].astype(np.float32), X, 12)
    assert (np.sort(ids, axis=1) == np.arange(12)).all()
    assert nearest(device, X[:0], X, 2)[0].shape == (0, 2)
    low = RNG.normal(size=(50, 2)).astype(np.float32)  # queries of higher precision than the points
    new = low[:9].astype(np.float64) + 1e-9
    np.testing.assert_array_equal(nearest(device, new, low, 4)[0], truth(new, low, 4)[0])


def test_the_index(device):
    X = RNG.normal(size=(400, 12)).astype(np.float32)
    index = make_index(X, Metric(), device)
    assert isinstance(index, module.DeviceIndex)
    assert (index.method, index.recall) == ("device", 1.0)
    seen = []
    found = index.neighbors(6, lambda done, total: seen.append((done, total)))
    assert all(part.device.type == device.name.partition(":")[0] for part in found)
    ids, squared = (to_numpy(part) for part in found)
    assert seen[-1] == (400, 400)
    assert ids.dtype == np.int32
    assert squared.dtype == np.float64
    np.testing.assert_array_equal(index.order[ids], truth(X, X, 6, True)[0])
    new = RNG.normal(size=(5, 12))
    np.testing.assert_array_equal(index.query(new, 3)[0], truth(new, X, 3)[0])
    again = pickle.loads(pickle.dumps(index))
    np.testing.assert_array_equal(again.query(new, 3)[0], index.query(new, 3)[0])
    with pytest.raises(ValueError, match="squared distances between points overflow"):
        make_index(1e200 * X.astype(np.float64), Metric(), device)
    with pytest.raises(ValueError, match="squared distances between points overflow"):
        index.query(1e200 * new, 3)
    found = nearest_neighbors(X, 6, device=device)
    np.testing.assert_array_equal(found.indices, ids)


def test_which_searches_run_on_a_device():
    device = Device("cpu")
    assert index_kind((100, 2), Metric(), False, device) == "device"
    assert index_kind((100, 2), Metric("l2"), False, device) == "device"
    assert index_kind((100_000, 50), Metric(), False, device) == "device"
    assert index_kind((100_000, 2), Metric("manhattan"), False, device) == "tree"
    assert index_kind((100_000, 50), Metric("cosine"), False, device) == "blocks"
    assert index_kind((100_000, 50), Metric(), True, device) == "blocks"
    million = (1_000_000, 3)
    assert index_kind(million, Metric(), False, device) == "tree"  # computes a hundred times fewer distances
    assert index_kind(million, Metric(), False, device, queries=1000) == "device"  # too few queries for a tree
    assert index_kind((1_000_000, 5), Metric(), False, device) == "device"


def test_many_points_in_few_dimensions_use_a_tree(device, monkeypatch):
    X = RNG.normal(size=(500, 3)).astype(np.float32)
    options = {"bandwidth": "self-tuning", "n_neighbors": 12, "device": device.name if device.is_cuda else "torch-cpu"}
    expected = hs.heat_kernel(X, **options)
    monkeypatch.setattr("heatsketch.neighbors.search._DEVICE_PAIRS", 1000)
    A = hs.heat_kernel(X, **options)
    assert A.affinity.neighborhoods.index.method == "tree"
    np.testing.assert_allclose(A @ X, expected @ X, atol=1e-5)


@pytest.mark.parametrize("repeated", [False, True])
def test_neighborhoods_equal_those_of_the_cpu(repeated, device):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(2200, 6))
    if repeated:
        X[100:140] = X[:40]
    (on_device, there), (on_cpu, here) = (
        Neighborhoods.search(X, 7, Metric(), at_least=12, device=where) for where in (device, None)
    )
    assert on_device.index.method == "device"
    np.testing.assert_array_equal(to_numpy(there.ids), here.ids)
    np.testing.assert_allclose(to_numpy(there.squared), here.squared, rtol=1e-12)
    np.testing.assert_allclose(there.scales(12), here.scales(12), rtol=1e-12)
    new = np.vstack([rng.normal(size=(20, 6)), X[:3]])
    rows, expected = on_device.rows(new), on_cpu.rows(new)
    np.testing.assert_array_equal(rows.indptr, expected.indptr)
    np.testing.assert_array_equal(rows.columns, expected.columns)
    np.testing.assert_allclose(rows.squared, expected.squared, rtol=1e-12)
    np.testing.assert_array_equal(rows.twin, expected.twin)
    for part, same in zip(there.graph(), here.graph(), strict=True):
        np.testing.assert_allclose(to_numpy(part), same, rtol=1e-12)


def test_rows_of_new_points_have_no_duplicates(device):
    """Beyond 2000 points some distances are computed twice, with different rounding."""
    rng = np.random.default_rng(0)
    hoods, _ = Neighborhoods.search(rng.normal(size=(2200, 6)), 7, Metric(), at_least=12, device=device)
    rows = hoods.rows(rng.normal(size=(1200, 6)))
    pairs = np.column_stack([np.repeat(np.arange(1200), np.diff(rows.indptr)), rows.columns])
    assert len(np.unique(pairs, axis=0)) == len(pairs)
