"""Input and output on Dask: chunks, dtypes, frames, new points and errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import heatsketch as hs
from heatsketch.kernel.options import KernelOptions

da = pytest.importorskip("dask.array")
layout = pytest.importorskip("heatsketch.backends.dask.layout")
DistributedArray = pytest.importorskip("heatsketch.backends.dask.array").DistributedArray
kept_neighbors = pytest.importorskip("heatsketch.backends.dask.kernel").kept_neighbors
dd = pytest.importorskip("dask.dataframe")

N = 400
OPTIONS = {"n_components": 3, "power": 4, "bandwidth": 0.5, "n_neighbors": None, "random_state": 0}
ROUNDING = 1e-13


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    """Four row chunks."""
    monkeypatch.setattr(layout, "CHUNK_ROWS", 100)


@pytest.fixture(scope="module")
def points():
    return hs.datasets.stretched_torus(N, random_state=0)


@pytest.fixture(scope="module")
def here(points):
    return hs.GaussianProcessEmbedding(**OPTIONS).fit(points)


@pytest.fixture
def there(points):
    return hs.GaussianProcessEmbedding(**OPTIONS).fit(da.from_array(points, chunks=(150, 2)))


@pytest.fixture(scope="module")
def frame(points):
    return pd.DataFrame(points, columns=list("abcd"), index=np.arange(100, 100 + N))


class TestChunks:
    @pytest.mark.parametrize("chunks", [(150, 2), (7, 4), (N, 4), ((100, 0, 300), (1, 3))])
    def test_embedding_has_chunks_of_data(self, points, here, chunks):
        X = da.from_array(points, chunks=chunks)
        fitted = hs.GaussianProcessEmbedding(**OPTIONS).fit(X)
        assert fitted.embedding_.chunks == (X.chunks[0], (3,))
        np.testing.assert_allclose(fitted.embedding_.compute(), here.embedding_, rtol=0, atol=ROUNDING)
        for model in (fitted, here):
            placed = model.transform(X)
            assert placed.chunks == (X.chunks[0], (3,))
            np.testing.assert_allclose(placed.compute(), here.embedding_, rtol=0, atol=ROUNDING)

    def test_unknown_sizes(self, points, here):
        X = da.from_array(points, chunks=(150, -1))
        X = X[X[:, 0] > -np.inf]
        fitted = hs.GaussianProcessEmbedding(**OPTIONS).fit(X)
        np.testing.assert_allclose(fitted.embedding_.compute(), here.embedding_, rtol=0, atol=ROUNDING)
        assert np.isnan(X.shape[0])

    def test_integers(self, points):
        whole = np.round(10 * points).astype(np.int32)
        options = OPTIONS | {"bandwidth": 50.0}
        expected = hs.GaussianProcessEmbedding(**options).fit_transform(whole)
        found = hs.GaussianProcessEmbedding(**options).fit_transform(da.from_array(whole, chunks=(150, -1)))
        assert found.dtype == expected.dtype == np.float64
        np.testing.assert_allclose(found.compute(), expected, rtol=0, atol=ROUNDING)

    def test_float32_stays_float32(self, points):
        single = points.astype(np.float32)
        expected = hs.GaussianProcessEmbedding(**OPTIONS).fit_transform(single)
        model = hs.GaussianProcessEmbedding(**OPTIONS)
        found = model.fit_transform(da.from_array(single, chunks=(150, -1)))
        placed = model.transform(da.from_array(single, chunks=(90, -1)))
        assert found.dtype == found.compute().dtype == placed.dtype == placed.compute().dtype == np.float32
        np.testing.assert_allclose(found.compute(), expected, rtol=0, atol=1e-5 * np.abs(expected).max())

    def test_product_with_block_in_column_chunks(self, there, here):
        V = np.random.default_rng(0).normal(size=(N, 4))
        found = there.kernel_ @ da.from_array(V, chunks=(90, 2))
        np.testing.assert_allclose(found.compute(), here.kernel_ @ V, rtol=0, atol=1e-12)


class TestFrames:
    def test_names_and_index(self, frame, here):
        model = hs.GaussianProcessEmbedding(**OPTIONS).set_output(transform="pandas")
        found = model.fit_transform(dd.from_pandas(frame, npartitions=3))
        assert isinstance(found, dd.DataFrame)
        assert model.feature_names_in_.tolist() == list("abcd")
        for made in (found.compute(), model.to_frame().compute(), model.transform(frame)):
            assert made.index.tolist() == frame.index.tolist()
            assert made.columns.tolist() == model.get_feature_names_out().tolist()
            np.testing.assert_allclose(made.to_numpy(), here.embedding_, rtol=0, atol=ROUNDING)

    def test_nullable_dtypes(self, frame, here):
        odd = frame.astype({"a": "Float64", "c": "double[pyarrow]"})
        found = hs.GaussianProcessEmbedding(**OPTIONS).fit_transform(dd.from_pandas(odd, npartitions=2))
        np.testing.assert_allclose(found.compute(), here.embedding_, rtol=0, atol=ROUNDING)

    def test_empty_partitions(self, frame):
        part = dd.from_pandas(frame, npartitions=3).map_partitions(lambda some: some[some.index < 300])
        model = hs.GaussianProcessEmbedding(**OPTIONS).set_output(transform="pandas")
        sizes = [len(some) for some in part.partitions]
        assert 0 in sizes
        found = model.fit_transform(part)
        assert [len(some) for some in found.partitions] == sizes

    def test_columns_must_match(self, frame):
        given = dd.from_pandas(frame, npartitions=2)
        model = hs.GaussianProcessEmbedding(**OPTIONS).fit(given)
        with pytest.raises(ValueError, match="feature names should match"):
            model.transform(given[["a", "b"]])
        words = given.assign(e="word")
        with pytest.raises(ValueError, match=r"columns \['e'\] of X are not numeric"):
            hs.GaussianProcessEmbedding(**OPTIONS).fit(words)

    def test_polars_raises(self, points):
        model = hs.GaussianProcessEmbedding(**OPTIONS).set_output(transform="polars")
        with pytest.raises(ValueError, match="use 'pandas'"):
            model.fit_transform(da.from_array(points, chunks=(150, -1)))


class TestNewPoints:
    def test_lazy_transform_belongs_to_its_fit(self, points):
        model = hs.GaussianProcessEmbedding(**OPTIONS).fit(points)
        expected = model.transform(points + 0.01)
        planned = model.transform(da.from_array(points + 0.01, chunks=(150, -1)))
        model.fit(2.0 * points)
        np.testing.assert_allclose(planned.compute(), expected, rtol=0, atol=ROUNDING)

    def test_arrays_in_memory(self, there, here, points):
        new = points[:20] + 0.01
        expected = here.transform(new)
        out = np.empty((20, 3))
        assert there.transform(new, out=out) is out
        for found in (out, there.transform(new), there.transform(sparse.csr_array(new))):
            np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING)
        with pytest.raises(ValueError, match="out was given as ndarray"):
            there.transform(new, out=np.empty((20, 3), dtype=int))
        with pytest.raises(ValueError, match="features"):
            there.transform(new[:, :2])

    def test_out_raises(self, there, points):
        with pytest.raises(ValueError, match="stays on the cluster"):
            there.transform(da.from_array(points, chunks=(150, -1)), out=np.empty((N, 3)))

    def test_far_point(self, there, here, points):
        far = points[:1] + 200.0
        np.testing.assert_allclose(there.transform(far), here.transform(far), rtol=1e-10)


class TestErrors:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"affinity": "precomputed"}, "kernels are made from points"),
            ({"metric": "precomputed"}, "kernels are made from points"),
            ({"kernel_params": {"cutoff": 1e-6}, "n_neighbors": "auto"}, "Leave cutoff at None"),
        ],
    )
    def test_options(self, points, options, words):
        with pytest.raises(ValueError, match=words):
            hs.GaussianProcessEmbedding(**OPTIONS | options).fit(da.from_array(points, chunks=(150, -1)))

    def test_shapes_and_numbers(self, points):
        holed = points.copy()
        holed[333, 1] = np.inf
        for bad, words in (
            (da.from_array(points[:, 0], chunks=150), "it must have 2"),
            (da.from_array(holed, chunks=(150, -1)), "NaN or infinity, for example in row 333"),
            (da.from_array(points[:1], chunks=1), "at least 2"),
            (da.from_array(points + 1j, chunks=(150, -1)), "Complex data"),
        ):
            with pytest.raises(ValueError, match=words):
                hs.GaussianProcessEmbedding(**OPTIONS).fit(bad)
        sparse_chunks = da.from_array(points, chunks=(150, -1)).map_blocks(
            sparse.csr_matrix, meta=sparse.csr_matrix((0, 4))
        )
        with pytest.raises(TypeError, match="give one of NumPy arrays"):
            hs.GaussianProcessEmbedding(**OPTIONS).fit(sparse_chunks)

    def test_error_names_the_row(self, points):
        lonely = points.copy()
        lonely[7] += 1000.0
        options = OPTIONS | {"n_neighbors": 5, "normalization": "symmetric", "kernel_params": {"diagonal": "zero"}}
        X = da.from_array(lonely, chunks=(150, -1))
        with pytest.raises(ValueError, match="row 7"):
            hs.GaussianProcessEmbedding(**options).fit(X)

    def test_unused_device_warns(self, points):
        X = da.from_array(points, chunks=(150, -1))
        with pytest.warns(UserWarning, match="by the CPUs of the workers"):
            hs.GaussianProcessEmbedding(**OPTIONS | {"n_neighbors": 10, "device": "torch-cpu"}).fit(X)


def test_number_of_neighbors_depends_on_number_of_points():
    for metric in ("euclidean", "cosine", "sqeuclidean"):
        options = KernelOptions(metric=metric, bandwidth=1.0)
        few, many = (DistributedArray.from_dask(da.zeros((n, 3), chunks=(5000, -1))) for n in (10_000, 10_001))
        assert kept_neighbors(few, options) is None
        assert kept_neighbors(many, options) == 32
        for points in (few, many):
            assert kept_neighbors(points, KernelOptions(metric=metric)) == 15


@pytest.mark.parametrize("bandwidth", [0.5, "self-tuning"])
def test_devices_of_workers(points, bandwidth):
    options = OPTIONS | {"bandwidth": bandwidth}
    expected = hs.GaussianProcessEmbedding(**options).fit_transform(points)
    X = da.from_array(points, chunks=(150, -1))
    found = hs.GaussianProcessEmbedding(**options, device="torch-cpu").fit_transform(X)
    np.testing.assert_allclose(found.compute(), expected, rtol=0, atol=1e-12)


def test_chunk_sizes_depend_on_number_of_rows(monkeypatch):
    monkeypatch.setattr(layout, "CHUNK_ROWS", 4096)
    for n, count in ((4097, 2), (50_000, 13), (10**6, 64), (10**7, 153), (10**9, 512)):
        sizes = layout.chunk_sizes(n)
        assert sum(sizes) == n
        assert len(sizes) == count
        assert max(sizes) - min(sizes) <= 1
    assert len(layout.chunk_sizes(10**6, largest=True)) == 16
