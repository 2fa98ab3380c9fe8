"""The heat kernel of points in bands: its blocks are Dask arrays in the order of its layout."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ..._utils.blocks import gathered, is_banded, rows_of, settled
from ..._utils.extras import optional
from ..._utils.typing import FloatArray, IntArray
from ...kernel.normalize import LeftFactor
from ...kernel.operator import HeatKernel, refuse_alone
from ...linalg.sketch import Sketch
from .affinity import bandwidth_in_bands
from .layout import Layout, Samples
from .tasks import Plan, at_hand, cluster

__all__ = ["BandedHeatKernel"]


class BandedHeatKernel(HeatKernel):
    """A heat kernel on a cluster.

    Its rows are in the order of its layout; `restored` brings blocks into that of the data, and ``A @ V`` takes and
    gives blocks in that order.
    """

    in_bands = True

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_cluster": cluster()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        where = state.pop("_cluster")
        if where is not None and not at_hand(where):
            raise ValueError(
                f"this embedding was fitted on the cluster {where}, where its data lie, and was pickled without them; "
                "load it while a client of that cluster is current, or store its embedding_ instead "
                "(embedding_.to_zarr(...))."
            )
        self.__dict__.update(state)

    @property
    def layout(self) -> Layout:
        """How its rows lie on the workers."""
        found: Layout = self.affinity.layout  # type: ignore[union-attr]
        return found

    @property
    def bandwidth(self) -> Any:
        """Epsilon, or each point's squared local scale, (N,), in the order of the samples."""
        epsilon = self.affinity.epsilon  # type: ignore[union-attr]
        return self.restored(epsilon) if is_banded(epsilon) else epsilon

    @property
    def points(self) -> Any:
        """The points, which can be looked up by the numbers of the samples (`blocks.rows_of`)."""
        X = self.affinity.X  # type: ignore[union-attr]
        return X if self.layout.numbers is None else Samples(X, self.layout)

    @property
    def neighbor_bandwidth(self) -> float:
        """The bandwidth that the rule "neighbor" gives for the points."""
        return float(bandwidth_in_bands(self.points, "neighbor", self.affinity.metric))  # type: ignore[union-attr]

    @cached_property
    def trivial_is_constant(self) -> bool:
        """Whether the trivial mode takes the same value in every row."""
        if self.trivial is None:
            return False
        if self.row_weight is not None:
            return True
        low, high = gathered(self.trivial.min(), self.trivial.max())
        return bool(high - low <= 1e-12 * max(abs(low), abs(high)))

    def sketched(self, sketch: Sketch, n_columns: int, *, first_column: int = 0, dtype: Any = None) -> Any:
        """Columns of a sketch at the points of this kernel, each worker making its own rows."""
        return self.layout.sketched(sketch, n_columns, first_column=first_column, dtype=dtype or np.float64)

    def units(self, numbers: IntArray, *, weighted: bool) -> Any:
        """Unit columns at the given samples, (N, m), in bands; times their row weights on request."""
        positions = self.positions(numbers)
        values = rows_of(self.row_weight, positions) if weighted and self.row_weight is not None else None
        return self.layout.units(positions, np.ones(len(positions)) if values is None else values, self.dtype)

    def positions(self, numbers: IntArray) -> IntArray:
        """Where the given samples are among the rows of this kernel."""
        return self.layout.positions(numbers)

    def arranged(self, V: Any) -> Any:
        """A block in the order of the data as one in the order of this kernel's rows."""
        return self.layout.arranged(V)

    def restored(self, V: Any) -> Any:
        """A block in the order and the chunks of the data."""
        return settled(self.layout.restored(V), name="putting rows back")

    def __matmul__(self, V: Any) -> Any:
        if not is_banded(V) or V.shape[0] != self.shape[1]:
            raise ValueError(
                f"a kernel of shape {self.shape} on a cluster was given {type(V).__name__} of shape {np.shape(V)}; "
                f"give a Dask array with {self.shape[1]} rows."
            )
        block = self.asblock(self.layout.arranged(V if V.ndim == 2 else V[:, None]))
        product = self.restored(self.matmat(block))
        return product if V.ndim == 2 else product[:, 0]

    def at_new_points(self, X: Any, Z: Any, out: FloatArray | None = None) -> Any:
        """``a(x) Z`` for new points: each point's own row of ``diag(w) S``, times coefficients.

        Parameters
        ----------
        X : Dask array of shape (m, d) in chunks of rows, or ndarray
        Z : Dask array of shape (N, k), in bands
        out : ndarray of shape (m, k), optional
            Where to write the result, if X is an ndarray.

        Returns
        -------
        Y : Dask array of shape (m, k) in the chunks of X, planned; or ndarray
        """
        assert self.affinity is not None
        assert self.scaling is not None
        dask = optional("dask.array", "compute on a cluster", "dask")
        if not is_banded(X):
            X = X.toarray() if sparse.issparse(X) else X
            found = gathered(self.at_new_points(dask.from_array(X, chunks=(self.layout.sizes[0], -1)), Z))
            if out is None:
                return found
            out[:] = found
            return out
        scale, reference = self.scaling.scale, self.scaling.reference
        columns = [self.layout.constant(1.0)[:, None], reference[:, None], scale[:, None] * Z.astype(np.float64)]
        columns = settled(dask.concatenate(columns, axis=1).rechunk({1: -1}), name="weighing coefficients")
        products, log_scale = self.affinity.row_products(X, columns)  # type: ignore[attr-defined]
        plan = Plan(products, log_scale)
        factors = self.scaling.left_factor
        starts = np.concatenate([[0], np.cumsum(X.chunks[0])])
        for q, (sums, logs) in enumerate(zip(plan.keys(products), plan.keys(log_scale), strict=True)):
            plan.add("place-new-points", (q, 0), _place, sums, logs, factors, int(starts[q]), np.dtype(Z.dtype).str)
        return plan.array("place-new-points", X.chunks[0], Z.shape[1], Z.dtype)


def _place(sums: FloatArray, log_scale: FloatArray, left: LeftFactor, first: int, dtype: str) -> FloatArray:
    """New points from the sums of their kernel rows: degrees, those against the reference, and coordinates."""
    degrees, against = sums[:, 0], sums[:, 1]
    refuse_alone(degrees, first)
    placed: FloatArray = left(degrees, against, log_scale)[:, None] * sums[:, 2:]
    return placed.astype(dtype)
