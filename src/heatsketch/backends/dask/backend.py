"""What estimators and functions do with Dask arrays and frames: fitted and applied where the data lie."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from ..._utils.array import to_numpy
from ..._utils.extras import optional
from ..._utils.progress import shown
from ..._utils.tables import explained
from ..._utils.threads import quiet_blas
from ..._utils.typing import FloatArray
from ...kernel.operator import HeatKernel
from ...kernel.options import KernelOptions
from . import columns, heat, kernel, layout  # noqa: F401 - they register what distributed arrays do
from .array import DistributedArray
from .inputs import (
    checked_bands,
    chunk_sizes,
    first_bad_row,
    is_dask_array,
    kernel_points,
    probe_of,
    refuse_on_cluster,
    require_finite,
)
from .tasks import Plan, current_client, everywhere, gathered, settled

__all__ = ["DaskBackend", "backend"]


class DaskBackend:
    """Dask as a backend of heatsketch (:class:`heatsketch._utils.registry.Backend`)."""

    distributed = True

    def table(self, X: Any) -> Any:
        """`X` as it is; scikit-learn gathers it."""
        return X

    def device_of(self, X: Any) -> None:
        """None: workers have devices of their own."""

    def computing(self) -> Any:
        """Nothing to prepare."""
        return nullcontext()

    def as_given(self, Y: Any, X: Any) -> Any:
        """An embedding, or several stacked, (..., N, k), as a Dask array in the chunks of X; others as they are."""
        if not is_dask_array(X) or is_dask_array(Y):
            return Y
        dask = optional("dask.array", "compute on a cluster", "dask")
        return dask.from_array(to_numpy(Y), chunks=(*(-1,) * (Y.ndim - 2), X.chunks[0], -1))

    def check_points(self, X: Any, options: KernelOptions) -> Any:
        """The input of a kernel, checked: points on workers; a NumPy array, if they are few."""
        return kernel_points(X, options)

    def gathered(self, X: Any) -> Any:
        """A collection as an array or frame in memory."""
        return gathered(X)

    @quiet_blas()
    def fit(self, model: Any, X: Any, options: KernelOptions) -> None:
        """Fit an estimator, whose parameters are checked, to a Dask array or frame."""
        refuse_on_cluster(options)
        points = _check(model, X, reset=True)
        if points.shape[0] <= layout.BAND:  # one chunk, and so one task: not worth a cluster
            model.fit(gathered(X))
            model.embedding_ = _in_chunks_of(X, self.as_given(np.asarray(model.embedding_), points))
            model._frame_index = getattr(X, "index", None)
            return
        with shown(model.verbose):
            points = settled(points, name="reading points")
            require_finite(points)
            model._fit_points(DistributedArray.from_dask(points).computed(), options)
        model.embedding_ = _in_chunks_of(X, model.embedding_)
        model._sample_names, model._frame_index = None, getattr(X, "index", None)

    @quiet_blas()
    def transform(self, model: Any, X: Any, out: FloatArray | None) -> Any:
        """`transform` of an estimator for a Dask array or frame: planned, but with neighbours on a cluster."""
        self.refuse_out(out)
        points = _checked(_check(model, X, reset=False))
        if not model.kernel_.in_memory:
            placed = model.kernel_.at_new_points(points, model._coefficients)
        else:
            plan = Plan(points)
            fitted = everywhere((model.kernel_, model._coefficients))  # what is fitted now, whatever becomes of it
            for b, key in enumerate(plan.keys(points)):
                plan.add("place-new-points", (b, 0), _transform, fitted, key)
            placed = plan.array("place-new-points", points.chunks[0], model.n_components_, model._coefficients.dtype)
        return _in_chunks_of(X, placed).astype(model.embedding_.dtype)

    def refuse_out(self, out: Any) -> None:
        """Refuse an array to write to: what lies on a cluster is stored by Dask."""
        if out is not None:
            raise ValueError(
                "out was given with a Dask array; the embedding stays on the cluster. Store it with its own methods, "
                "such as to_zarr or to_hdf5, or dask.array.store."
            )

    def as_frame(self, model: Any, Y: Any, index: Any) -> Any:
        """An embedding as a Dask frame, with the index of another frame, or None."""
        frames = optional("dask.dataframe", "make a frame on a cluster", "dask")
        frame = frames.from_dask_array(Y, columns=list(model.get_feature_names_out()), index=index)
        # Frames that are planned on an array do not keep alive what of it is held on a cluster.
        return frame if current_client() is None else frame.persist()


backend = DaskBackend()


def _check(model: Any, X: Any, *, reset: bool) -> Any:
    """A Dask array or frame as points in chunks of rows, with what scikit-learn checks checked."""
    points = checked_bands(X, least=2 if reset else 1)
    with explained():
        validate_data(model, probe_of(X, points), reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=1)
    return points


def _checked(points: Any) -> Any:
    """New points that are refused, when they are computed, where they are not finite."""
    plan = Plan(points)
    starts = np.concatenate([[0], np.cumsum(points.chunks[0])])
    for b, key in enumerate(plan.keys(points)):
        plan.add("check-points", (b, 0), _require_finite, key, int(starts[b]))
    return plan.array("check-points", points.chunks[0], points.shape[1], points.dtype)


def _require_finite(X: FloatArray, start: int) -> FloatArray:
    row = first_bad_row(X)
    if row >= 0:
        raise ValueError(
            f"Input X contains NaN or infinity, first in row {start + row}; leave such rows out or fill them in."
        )
    return X


def _transform(fitted: tuple[HeatKernel, FloatArray], X: FloatArray) -> FloatArray:
    heat_kernel, coefficients = fitted
    return heat_kernel.at_new_points(X, coefficients)


def _in_chunks_of(X: Any, Y: Any) -> Any:
    """Rows in the chunks of X, empty ones included, where X is an array or a frame that has some."""
    sizes = chunk_sizes(X)
    return Y.rechunk({0: sizes}) if 0 in sizes else Y
