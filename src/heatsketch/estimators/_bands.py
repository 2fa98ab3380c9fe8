"""Embeddings of Dask arrays and frames: fitted and applied on the cluster that is current, or on threads."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import validate_data

from .._utils.blocks import is_banded, like
from .._utils.extras import optional
from .._utils.progress import shown
from .._utils.tables import explained
from .._utils.threads import quiet_blas
from .._utils.typing import FloatArray
from ..backends.dask import layout
from ..backends.dask.inputs import (
    checked_bands,
    chunk_sizes,
    first_bad_row,
    probe_of,
    refuse_on_cluster,
    require_finite,
)
from ..backends.dask.kernel import BandedHeatKernel
from ..backends.dask.tasks import Plan, at_hand, cluster, current_client, everywhere, gathered, settled
from ..kernel.operator import HeatKernel
from ..kernel.options import KernelOptions


class Bands:
    """What an embedding does with data on a cluster."""

    embedding_: Any
    kernel_: Any
    n_components_: int
    verbose: bool
    _coefficients: Any
    _frame_index: Any = None  # of the Dask frame that was fitted to

    def __getstate__(self) -> Any:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return state | {"_cluster": cluster()} if getattr(state.get("kernel_"), "in_bands", False) else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        where = state.pop("_cluster", None)
        if where is not None and not at_hand(where):
            raise ValueError(
                f"this {type(self).__name__} was fitted on the cluster {where}, where its data lie, and was pickled "
                "without them; load it while a client of that cluster is current, or store its embedding_ instead "
                "(embedding_.to_zarr(...))."
            )
        super().__setstate__(state)  # type: ignore[misc]

    @quiet_blas()
    def _fit_bands(self, X: Any) -> Self:
        """`fit` for a Dask array or frame."""
        options: KernelOptions = self._kernel_options()  # type: ignore[attr-defined]
        self._check_common()  # type: ignore[attr-defined]
        self._check_parameters()  # type: ignore[attr-defined]
        refuse_on_cluster(options)
        points = self._check_bands(X, reset=True)
        if points.shape[0] <= layout.BAND:  # one band, and so one task: not worth a cluster
            self.fit(gathered(X))  # type: ignore[attr-defined]
            self.embedding_ = in_chunks_of(X, handed_back(np.asarray(self.embedding_), points))
            self._frame_index = getattr(X, "index", None)
            return self
        with shown(self.verbose):
            points = settled(points, name="reading points")
            require_finite(points)
            self._fit_kernel(points, options)  # type: ignore[attr-defined]
        self.embedding_ = in_chunks_of(X, self.embedding_)
        self._sample_names, self._frame_index = None, getattr(X, "index", None)
        return self

    @quiet_blas()
    def _transform_bands(self, X: Any, out: FloatArray | None) -> Any:
        """`transform` for a Dask array or frame: planned, but with neighbours on a cluster."""
        refuse_out(out)
        points = _checked(self._check_bands(X, reset=False))
        if isinstance(self.kernel_, BandedHeatKernel):
            placed = self.kernel_.at_new_points(points, self._coefficients)
        else:
            plan = Plan(points)
            model = everywhere((self.kernel_, self._coefficients))  # what is fitted now, whatever becomes of it
            for b, key in enumerate(plan.keys(points)):
                plan.add("place-new-points", (b, 0), _transform, model, key)
            placed = plan.array("place-new-points", points.chunks[0], self.n_components_, self._coefficients.dtype)
        return in_chunks_of(X, placed).astype(self.embedding_.dtype)

    def _check_bands(self, X: Any, *, reset: bool) -> Any:
        """A Dask array or frame as points in chunks of rows, with what scikit-learn checks checked."""
        points = checked_bands(X, least=2 if reset else 1)
        with explained():
            validate_data(self, probe_of(X, points), reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=1)
        return points

    def _as_frame(self, Y: Any, X: Any = None) -> Any:
        """An embedding on a cluster as a Dask frame, with the index of X if that is one."""
        frames = optional("dask.dataframe", "make a frame on a cluster", "dask")
        names = self.get_feature_names_out()  # type: ignore[attr-defined]
        index = self._frame_index if X is None else getattr(X, "index", None)
        frame = frames.from_dask_array(Y, columns=list(names), index=index)
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


def in_chunks_of(X: Any, Y: Any) -> Any:
    """Rows in the chunks of X, empty ones included, where X is an array or a frame that has some."""
    sizes = chunk_sizes(X)
    return Y.rechunk({0: sizes}) if 0 in sizes else Y
