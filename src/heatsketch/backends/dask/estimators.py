"""Embeddings of Dask arrays and frames: fitted and applied on the current cluster, or on threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from ..._utils.blocks import is_banded, like
from ..._utils.extras import optional
from ..._utils.progress import shown
from ..._utils.tables import explained
from ..._utils.threads import quiet_blas
from ..._utils.typing import FloatArray
from ...kernel.operator import HeatKernel
from ...kernel.options import KernelOptions
from . import layout
from .inputs import (
    checked_bands,
    chunk_sizes,
    first_bad_row,
    is_collection,
    probe_of,
    refuse_on_cluster,
    require_finite,
)
from .kernel import BandedHeatKernel
from .tasks import Plan, current_client, everywhere, gathered, settled

__all__ = ["as_frame", "fit", "handed_back", "is_collection", "refuse_out", "transform"]


@quiet_blas()
def fit(model: Any, X: Any, options: KernelOptions) -> None:
    """Fit an estimator, whose parameters are checked, to a Dask array or frame."""
    refuse_on_cluster(options)
    points = _check_data(model, X, reset=True)
    if points.shape[0] <= layout.BAND:  # one band, and so one task: not worth a cluster
        model.fit(gathered(X))
        model.embedding_ = _in_chunks_of(X, handed_back(np.asarray(model.embedding_), points))
    else:
        with shown(model.verbose):
            points = settled(points, name="reading points")
            require_finite(points)
            model._fit_points(points, options)
        model.embedding_ = _in_chunks_of(X, model.embedding_)
        model._sample_names = None
    model._frame_index = getattr(X, "index", None)


@quiet_blas()
def transform(model: Any, X: Any, out: FloatArray | None) -> Any:
    """Embed the new points of a Dask array or frame: planned, but with neighbours on a cluster."""
    refuse_out(out)
    points = _checked(_check_data(model, X, reset=False))
    if isinstance(model.kernel_, BandedHeatKernel):
        placed = model.kernel_.at_new_points(points, model._coefficients)
    else:
        plan = Plan(points)
        fitted = everywhere((model.kernel_, model._coefficients))  # as it is now, whatever becomes of the estimator
        for b, key in enumerate(plan.keys(points)):
            plan.add("place-new-points", (b, 0), _transform, fitted, key)
        placed = plan.array("place-new-points", points.chunks[0], model.n_components_, model._coefficients.dtype)
    return _in_chunks_of(X, placed).astype(model.embedding_.dtype)


def _check_data(model: Any, X: Any, *, reset: bool) -> Any:
    """A Dask array or frame as points in chunks of rows, with what scikit-learn checks checked."""
    points = checked_bands(X, least=2 if reset else 1)
    with explained():
        validate_data(model, probe_of(X, points), reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=1)
    return points


def as_frame(model: Any, Y: Any, index: Any) -> Any:
    """An embedding on a cluster as a Dask frame, with the index of another frame, or None."""
    frames = optional("dask.dataframe", "make a frame on a cluster", "dask")
    frame = frames.from_dask_array(Y, columns=list(model.get_feature_names_out()), index=index)
    # Frames that are planned on an array do not keep alive what of it is held on a cluster.
    return frame if current_client() is None else frame.persist()


def handed_back(values: Any, given: Any) -> Any:
    """An embedding, or several stacked, (..., N, k), as what it was made from: an array, a tensor or a Dask array."""
    if not is_banded(given) or is_banded(values):
        return like(values, given)
    return _dask().from_array(values, chunks=(*(-1,) * (values.ndim - 2), given.chunks[0], -1))


def refuse_out(out: Any) -> None:
    """Refuse an array to write to: what lies on a cluster is stored by Dask."""
    if out is not None:
        raise ValueError(
            "out was given with a Dask array; the embedding stays on the cluster. Store it with its own methods, such "
            "as to_zarr or to_hdf5, or dask.array.store."
        )


def _dask() -> Any:
    return optional("dask.array", "compute on a cluster", "dask")


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


def _transform(model: tuple[HeatKernel, FloatArray], X: FloatArray) -> FloatArray:
    kernel, coefficients = model
    return kernel.at_new_points(X, coefficients)


def _in_chunks_of(X: Any, Y: Any) -> Any:
    """Rows in the chunks of X, empty ones included, where X is an array or a frame that has some."""
    sizes = chunk_sizes(X)
    return Y.rechunk({0: sizes}) if 0 in sizes else Y
