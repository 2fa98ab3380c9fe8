"""Tables in every container, dtype and layout: embedded as a plain array is, or refused in words; never changed."""

from __future__ import annotations

import copy
import decimal
import fractions
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

import heatsketch as hs
from budget import cases
from hostile_points import attempt

MODELS = {
    "every pair": hs.GaussianProcessEmbedding(2, random_state=0, device="cpu"),
    "neighbours": hs.GaussianProcessEmbedding(2, n_neighbors=2, bandwidth=50.0, random_state=0, device="cpu"),
    "cutoff": hs.DiffusionMaps(1, kernel_params={"cutoff": 0.01}, normalization="stochastic", device="cpu"),
    "optimised": hs.HeatSketch(2, solver_params={"n_rounds": 1}, random_state=0, device="cpu"),
}
DTYPES = (*"fdeghilqBHILQOUS", ">f4", ">f8", ">i2", ">i8", ">u4")
SPARSE = (sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix, sparse.lil_array, sparse.dok_array)


def _masked(X):
    return np.ma.masked_array(X, mask=np.zeros(X.shape, dtype=bool))


def _read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def _strided(X):
    return np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]


def _mapped(X):
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder, "X.npy"), X)
        return np.load(Path(folder, "X.npy"), mmap_mode="r")


def _doubled(X):
    """Sparse, with every entry in two halves, zeros that are stored, rows out of order, and large indices."""
    n, d = X.shape
    data, columns = np.hstack([X, X]) / 2.0, np.tile(np.arange(d), (n, 2))
    indptr = 2 * d * np.arange(n + 1)
    return sparse.csr_array((data.ravel(), columns.ravel().astype(np.int64), indptr.astype(np.int64)), shape=X.shape)


LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "strided": _strided,
    "backwards": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "read-only": _read_only,
    "masked, with nothing masked": _masked,
    "unaligned": lambda X: np.frombuffer(b"x" + X.tobytes(), X.dtype, offset=1).reshape(X.shape),
}
CONTAINERS = {
    "lists": lambda X: X.tolist(),
    "tuples": lambda X: tuple(map(tuple, X.tolist())),
    "list of arrays": list,
    "objects": lambda X: X.astype(object),
    "fractions": np.vectorize(fractions.Fraction, otypes=[object]),
    "decimals": np.vectorize(decimal.Decimal, otypes=[object]),
    "file": _mapped,
    "doubled entries": _doubled,
    "pandas": pd.DataFrame,
    "pandas Int64": lambda X: pd.DataFrame(X).astype("Int64"),
    "pandas Float64": lambda X: pd.DataFrame(X).astype("Float64"),
    "pandas objects": lambda X: pd.DataFrame(X.astype(object)),
    "pandas sparse": lambda X: pd.DataFrame(X).astype(pd.SparseDtype("float64", 0.0)),
    "pandas sparse with NaN left out": lambda X: pd.DataFrame(X).astype(pd.SparseDtype("float64", np.nan)),
    "polars": pl.DataFrame,
    "polars decimals": lambda X: pl.DataFrame(X).cast(pl.Decimal(10, 2)),
} | {kind.__name__: kind for kind in SPARSE}

tables = hnp.arrays(
    np.float64, st.tuples(st.integers(4, 9), st.integers(2, 4)), elements=st.integers(0, 120).map(float)
)


def _snapshot(X):
    """What must not change of input, in a form that can be compared."""
    if isinstance(X, np.ndarray):
        return X.tobytes(), X.dtype, X.strides, str(X.flags)
    if sparse.issparse(X):
        coo = X.tocoo()
        return X.format, X.dtype, coo.data.tobytes(), coo.row.tobytes(), coo.col.tobytes(), coo.row.dtype
    if isinstance(X, pd.DataFrame):
        return X.to_json(), list(X.dtypes), list(X.columns)
    if isinstance(X, pl.DataFrame):
        return X.rows(), X.schema
    return [np.asarray(row).tolist() for row in X]


def _assert_same(plain, given, model):
    """The embedding of `given` is that of the same numbers in a plain array, and `given` is as it was."""
    before = _snapshot(given)
    expected, _ = attempt(lambda: copy.deepcopy(model).fit(plain))
    found, _ = attempt(lambda: copy.deepcopy(model).fit(given))
    assert _snapshot(given) == before
    assert (found is None) == (expected is None)
    if found is not None:
        atol = 1e-8 * np.abs(expected.embedding_).max()
        np.testing.assert_allclose(np.asarray(found.embedding_), expected.embedding_, rtol=0, atol=atol)
        placed, _ = attempt(lambda: found.transform(given))
        np.testing.assert_allclose(np.asarray(placed), expected.transform(plain), rtol=0, atol=atol)
        assert _snapshot(given) == before


@cases(60)
@given(tables, st.sampled_from(DTYPES), st.sampled_from(sorted(LAYOUTS)), st.sampled_from(sorted(MODELS)))
def test_dtypes_and_layouts(X, dtype, layout, model):
    given = LAYOUTS[layout](X.astype(dtype)) if dtype != "O" or layout != "unaligned" else X.astype(dtype)
    plain = X.astype(np.float32) if given.dtype == np.float32 else X
    _assert_same(plain, given, MODELS[model])


@cases(60)
@given(tables, st.sampled_from(sorted(CONTAINERS)), st.sampled_from(sorted(MODELS)))
def test_containers(X, container, model):
    _assert_same(X, CONTAINERS[container](X), MODELS[model])


@cases(20)
@given(tables, st.sampled_from(sorted(MODELS)))
def test_views_that_repeat_one_row_or_column(X, model):
    columns, rows = np.broadcast_to(X[:, :1], X.shape), np.broadcast_to(X[:1], X.shape)
    _assert_same(columns.copy(), columns, MODELS[model])
    fit, _ = attempt(lambda: copy.deepcopy(MODELS[model]).fit(rows))
    assert fit is None  # all points are one


X = np.random.default_rng(0).normal(size=(12, 3))


def _with(value, dtype=object):
    Z = X.astype(dtype)
    Z[2, 1] = value
    return Z


REFUSED = {
    "masked entries": (np.ma.masked_greater(X, 1.0), ValueError, "entries of X are masked"),
    "complex": (X * 1j, ValueError, "Complex data not supported: X has dtype complex128"),
    "sparse complex": (sparse.csr_array(X * 1j), ValueError, "Complex data not supported"),
    "complex column": (pd.DataFrame({"a": [1j, 2, 3]}), ValueError, r"columns \['a'\] of X are complex"),
    "a complex object": (_with(1j), TypeError, "not 'complex'.*X must hold numbers"),
    "a dict inside": (_with({}), TypeError, "not 'dict'.*X must hold numbers"),
    "a list inside": (_with([1, 2]), ValueError, "X must hold numbers"),
    "a date inside": (_with(pd.Timestamp("2020")), TypeError, "not 'Timestamp'.*X must hold numbers"),
    "pandas.NA inside": (_with(pd.NA), TypeError, "not 'NAType'.*X must hold numbers"),
    "None inside": (_with(None), ValueError, "contains NaN"),
    "huge integers": (_with(10**400), ValueError, "too large.*X must hold numbers"),
    "huge integers in a frame": (pd.DataFrame(_with(10**400)), ValueError, "too large.*X must hold numbers"),
    "beyond float64": (X.astype("g") * np.longdouble("1e4000"), ValueError, "infinity|zero"),
    "words": (np.array([["a", "b"]] * 5, dtype=object), ValueError, "could not convert.*encode categories"),
    "records": (np.zeros((5, 2), dtype=[("a", "f8"), ("b", "f8")]), TypeError, "X must hold numbers"),
    "timedeltas": (X.astype("m8[D]"), ValueError, "turn dates into numbers"),
    "ragged lists": ([[1, 2], [3], [4, 5]], ValueError, "as many in every row"),
    "matrix": (X.view(np.matrix), TypeError, "np.matrix is not supported"),
    "missing integers": (pd.DataFrame({"a": pd.array([1, None, 3], "Int64")}), ValueError, "contains NaN"),
    "missing floats": (pd.DataFrame({"a": pd.array([1, None, 3], "Float64")}), ValueError, "contains NaN"),
    "missing in polars": (pl.DataFrame({"a": [1, None, 3]}), ValueError, "contains NaN"),
    "categories": (pd.DataFrame({"a": pd.Categorical([1, 2, 3])}), ValueError, r"columns \['a'\].*not numeric"),
    "strings of polars": (pl.DataFrame({"a": ["x", "y"]}), ValueError, r"columns \['a'\].*not numeric"),
    "columns twice": (
        pd.DataFrame(X, columns=["a", "a", "b"]),
        ValueError,
        r"columns \['a'\] are there more than once",
    ),
    "no columns": (pd.DataFrame(index=range(5)), ValueError, r"0 feature\(s\)"),
    "a series": (pd.Series(X[:, 0]), ValueError, "DataFrame containing a single"),
    "a lazy frame": (pl.DataFrame(X).lazy(), TypeError, "type LazyFrame; it must be a table"),
    "None": (None, TypeError, "X was given as None; it must be a table"),
    "a number": (3.0, TypeError, "X was given as 3.0"),
    "a word": ("points.csv", TypeError, "type str; it must be a table"),
    "a dict": ({"a": [1, 2]}, TypeError, "type dict; it must be a table"),
    "a set": ({1, 2}, TypeError, "type set; it must be a table"),
    "a function": (len, TypeError, "it must be a table"),
    "a class": (np.ndarray, TypeError, "it must be a table"),
    "a 0-d array": (np.array(3.0), ValueError, "Expected 2D array"),
    "one row": (X[:1], ValueError, "1 sample"),
    "no rows": (sparse.csr_array((0, 3)), ValueError, "0 sample"),
    "nothing": (np.empty((0, 0)), ValueError, "0 sample"),
    "nothing but zeros": (sparse.csr_array((5, 3)), ValueError, "all distances between the 5 points are zero"),
}
READERS = {
    "fit": lambda Z: hs.GaussianProcessEmbedding(2, device="cpu").fit(Z),
    "kernel": lambda Z: hs.heat_kernel(Z, device="cpu"),
    "bandwidth": hs.estimate_bandwidth,
    "neighbours": lambda Z: hs.DiffusionMaps(1, n_neighbors=2, device="cpu").fit(Z),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_table_of_numbers_is_refused(name, reader):
    data, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message) as raised:
        READERS[reader](data)
    assert len(str(raised.value)) > 40


REFUSED_LATER = {
    "columns": (X[:, :2], ValueError, "X has 2 features, but GaussianProcessEmbedding is expecting 3"),
    "rows": (X[:0], ValueError, "0 sample"),
    "masked entries": (np.ma.masked_greater(X, 1.0), ValueError, "entries of X are masked"),
    "NaN": (_with(np.nan, float), ValueError, "contains NaN"),
    "infinity": (_with(-np.inf, float), ValueError, "contains infinity"),
    "overflow": (1e200 * X, ValueError, "overflow; divide X"),
    "None": (None, TypeError, "X was given as None"),
    "a generator": ((row for row in X), TypeError, "type generator; it must be a table"),
}


@pytest.mark.parametrize("name", REFUSED_LATER)
def test_new_points_that_are_refused(name):
    new, kind, message = REFUSED_LATER[name]
    fit = hs.GaussianProcessEmbedding(2, random_state=0, device="cpu").fit(X)
    with pytest.raises(kind, match=message):
        fit.transform(new)


def test_a_generator_is_refused_before_its_rows_are_taken():
    rows = iter(X)
    with pytest.raises(TypeError, match=r"type .*; it must be a table"):
        hs.GaussianProcessEmbedding(2).fit_transform(rows, out=np.empty((12, 2)))
    assert len(list(rows)) == 12


def test_sums_that_overflow_are_not_heard_of():
    largest = np.finfo(np.float32).max
    Z = np.array([[largest, -largest], [-largest, largest], [largest, largest]], dtype=np.float32)
    assert np.isfinite(hs.GaussianProcessEmbedding(2, random_state=0).fit_transform(Z)).all()
