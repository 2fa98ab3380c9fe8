"""What estimators and functions do with Dask arrays and frames."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import dask.array as da
import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from ..._utils.array import to_numpy
from ..._utils.extras import optional
from ..._utils.progress import shown
from ..._utils.tables import explained
from ..._utils.threads import quiet_blas
from ..._utils.typing import FloatArray
from ...kernel.options import KernelOptions, check_masses, check_points
from . import layout
from .array import DistributedArray
from .kernel import place_chunks
from .tasks import Plan, current_client, gathered, persisted

__all__ = ["DaskBackend", "backend"]


class DaskBackend:
    """Dask as a backend, as :mod:`heatsketch._utils.registry` describes one."""

    distributed = True

    def table(self, X: Any) -> Any:
        """`X` itself; scikit-learn gathers it."""
        return X

    def device_of(self, X: Any) -> None:
        """None: workers choose their devices."""

    def computing(self) -> Any:
        """Nothing to prepare."""
        return nullcontext()

    def as_given(self, Y: Any, X: Any) -> Any:
        """An embedding, or several stacked, (..., N, k), as a Dask array in the chunks of X."""
        if not isinstance(X, da.Array) or isinstance(Y, da.Array):
            return Y
        return da.from_array(to_numpy(Y), chunks=(*(-1,) * (Y.ndim - 2), X.chunks[0], -1))

    def check_points(self, X: Any, options: KernelOptions) -> Any:
        """The checked input of a kernel: points on workers; a NumPy array, if they are few."""
        _check_options(options)
        points, _ = _as_points(X, at_least=2)
        if points.shape[0] <= layout.CHUNK_ROWS:
            return check_points(gathered(X), options)
        with explained():
            check_array(_probe(X, points), dtype=[np.float64, np.float32], ensure_min_samples=1)
        return DistributedArray.from_dask(persisted(_finite(points), name="reading points"))

    def gathered(self, X: Any) -> Any:
        """A collection as an array or frame in memory."""
        return gathered(X)

    @quiet_blas()
    def fit(self, model: Any, X: Any, options: KernelOptions, sample_weight: Any = None) -> None:
        """Fit an estimator, whose parameters are checked, to a Dask array or frame."""
        _check_options(options)
        points, sizes = _check(model, X, reset=True)
        if points.shape[0] <= layout.CHUNK_ROWS:  # one chunk, and so one task: not worth a cluster
            model.fit(gathered(X), sample_weight=None if sample_weight is None else gathered(sample_weight))
            model.embedding_ = self.as_given(np.asarray(model.embedding_), points)
        else:
            masses = check_masses(sample_weight, points.shape[0])
            with shown(model.verbose):
                points = persisted(_finite(points), name="reading points")
                model._fit_points(DistributedArray.from_dask(points), options, masses)
            model._sample_names = None
        model.embedding_ = model.embedding_.rechunk({0: sizes})
        model._frame_index = getattr(X, "index", None)

    @quiet_blas()
    def transform(self, model: Any, X: Any, out: FloatArray | None) -> Any:
        """`transform` of an estimator for a Dask array or frame: lazy, except for neighbours on a cluster."""
        self.refuse_out(out)
        points, sizes = _check(model, X, reset=False)
        points = _finite(points)
        place = model._placement()
        if model._places_in_memory:
            placed = place_chunks(points, place, model.n_components_, model.embedding_.dtype)
        else:
            placed = place(points)
        return placed.rechunk({0: sizes}).astype(model.embedding_.dtype)

    def refuse_out(self, out: Any) -> None:
        """Raise an error if an array to write to is given."""
        if out is not None:
            raise ValueError(
                "out was given with a Dask array; the embedding stays on the cluster. Store it with its own methods, "
                "such as to_zarr or to_hdf5, or dask.array.store."
            )

    def as_frame(self, model: Any, Y: Any, index: Any) -> Any:
        """An embedding as a Dask frame, with the index of another frame, or None."""
        frames = optional("dask.dataframe", "make a frame on a cluster", "dask")
        frame = frames.from_dask_array(Y, columns=list(model.get_feature_names_out()), index=index)
        # A lazy frame does not keep the data of the array alive on the cluster.
        return frame if current_client() is None else frame.persist()


backend = DaskBackend()


def _check(model: Any, X: Any, *, reset: bool) -> tuple[Any, tuple[int, ...]]:
    """A Dask array or frame as points, validated by scikit-learn, and its row chunks."""
    points, sizes = _as_points(X, at_least=2 if reset else 1)
    with explained():
        validate_data(model, _probe(X, points), reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=1)
    return points, sizes


def _as_points(X: Any, *, at_least: int) -> tuple[Any, tuple[int, ...]]:
    """A Dask array or frame as a lazy Dask array of floats without empty chunks; and the row chunks of X."""
    if hasattr(X, "to_dask_array"):
        nullable = [
            name for name, dtype in X.dtypes.items() if not isinstance(dtype, np.dtype) and dtype.kind in "biuf"
        ]
        X = (X.astype(dict.fromkeys(nullable, np.float64)) if nullable else X).to_dask_array(lengths=True)
    if not isinstance(X, da.Array):
        raise TypeError(f"X is a {type(X).__name__}; of Dask's collections, arrays and frames are accepted.")
    if X.ndim != 2:
        raise ValueError(
            f"X is a Dask array of {X.ndim} dimensions; it must have 2: a row for each sample. Reshape your data."
        )
    if not isinstance(X._meta, np.ndarray):
        raise TypeError(
            f"X is a Dask array of {type(X._meta).__module__} arrays; give one of NumPy arrays, for example by "
            "X.map_blocks(lambda chunk: chunk.toarray()), or a sparse matrix in memory."
        )
    if np.isnan(X.shape[0]):
        X = X.copy().compute_chunk_sizes()  # of a copy: it changes the array itself
    sizes = tuple(int(size) for size in X.chunks[0])
    X = X.rechunk({0: tuple(size for size in sizes if size) or (0,), 1: -1})
    if X.shape[0] < at_least:
        raise ValueError(f"X has {X.shape[0]} sample(s), and at least {at_least} are needed.")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float32 if X.dtype == np.float16 else np.float64)
    return X, sizes


def _probe(X: Any, points: Any) -> Any:
    """Two rows of zeros with the dtype and the names of X, which scikit-learn checks in place of X."""
    if hasattr(X, "to_dask_array"):
        pandas = optional("pandas", "make a frame")
        numeric = pandas.api.types.is_numeric_dtype
        zeros = {name: np.zeros(2) for name, dtype in X.dtypes.items() if numeric(dtype)}
        missing = [name for name in X.columns if name not in zeros]
        if missing:
            raise ValueError(f"columns {missing} of X are not numeric; encode categories or leave these columns out.")
        return pandas.DataFrame(zeros, columns=X.columns)
    return np.zeros((2, points.shape[1]), dtype=X.dtype)


def _check_options(options: KernelOptions) -> None:
    """Raise an error for options that need all pairs in memory, or are not implemented on a cluster."""
    for name, value in (("affinity", options.affinity), ("metric", options.metric)):
        if value == "precomputed":
            raise ValueError(
                f"{name}='precomputed' was given with a Dask array; on a cluster kernels are made from points. Give "
                "points, or the matrix in memory (a sparse one, if it is large)."
            )
    if options.cutoff is not None:
        raise ValueError(
            f"cutoff={options.cutoff!r} was given with a Dask array; on a cluster every pair is used "
            "(n_neighbors=None) or neighbours are (n_neighbors=32). Leave cutoff at None."
        )


def _finite(points: Any) -> Any:
    """The same points; computing them raises an error if some are not finite."""
    plan = Plan(points)
    first = np.concatenate([[0], np.cumsum(points.chunks[0])]).tolist()
    for b, key in enumerate(plan.keys(points)):
        plan.add("check-points", (b, 0), _require_finite, key, first[b])
    return plan.array("check-points", points.chunks[0], points.shape[1], points.dtype)


def _require_finite(X: FloatArray, first: int) -> FloatArray:
    bad = ~np.isfinite(X).all(axis=1)
    if bad.any():
        raise ValueError(
            f"Input X contains NaN or infinity, for example in row {first + bad.argmax()}; drop or impute such rows "
            "(dask_ml.impute.SimpleImputer)."
        )
    return X
