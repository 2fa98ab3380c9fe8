"""The heat kernel of points on a cluster: it takes and gives Dask arrays."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ..._utils.extras import optional
from ..._utils.typing import FloatArray
from ...kernel.build import compose_kernel
from ...kernel.normalize import LeftFactor, Scaling
from ...kernel.operator import HeatKernel, refuse_alone
from .affinity import BandedAffinity
from .array import DistributedArray
from .inputs import is_dask_array
from .layout import Layout
from .tasks import Plan, at_hand, cluster, gathered, settled

__all__ = ["BandedHeatKernel"]


class BandedHeatKernel(HeatKernel):
    """A heat kernel on a cluster.

    ``A @ V`` takes and gives Dask arrays in the order of the data; the mathematics works on distributed arrays, in the
    kernel's own layout.
    """

    in_memory = False
    affinity: BandedAffinity
    scaling: Scaling

    @property
    def layout(self) -> Layout:
        """How its rows lie on the workers."""
        return self.affinity.layout

    @property
    def bandwidth(self) -> Any:
        """Epsilon, or each point's squared local scale, (N,), as a Dask array in the order of the samples."""
        epsilon: Any = self.affinity.epsilon
        return self.hand_out(epsilon) if np.ndim(epsilon) else epsilon

    @cached_property
    def trivial_is_constant(self) -> bool:
        """Whether the trivial mode takes the same value in every row."""
        return super().trivial_is_constant

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_cluster": cluster()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        where = state.pop("_cluster", None)
        if where is not None and not at_hand(where):
            raise ValueError(
                f"this heat kernel was made on the cluster {where}, where its data lie, and was pickled without them; "
                "load it while a client of that cluster is current, or store the embedding_ instead "
                "(embedding_.to_zarr(...))."
            )
        self.__dict__.update(state)

    def collect(self, V: Any) -> DistributedArray:
        """A block, or a Dask array with a row for each sample, as a distributed array."""
        if isinstance(V, DistributedArray):
            return V
        if not is_dask_array(V):
            dask = optional("dask.array", "compute on a cluster", "dask")
            V = np.asarray(V)
            V = dask.from_array(V, chunks=(self.layout.given if len(V) == self.shape[0] else -1, -1))
        return DistributedArray.from_dask(V)

    def hand_out(self, V: Any) -> Any:
        """A block as a Dask array in the order and the chunks of the data."""
        return settled(V.layout.restored(V.computed().values), name="putting rows back")

    def __matmul__(self, V: Any) -> Any:
        if isinstance(V, DistributedArray):
            return super().__matmul__(V)
        if not is_dask_array(V) or V.shape[0] != self.shape[1]:
            raise ValueError(
                f"a kernel of shape {self.shape} on a cluster was given {type(V).__name__} of shape {np.shape(V)}; "
                f"give a Dask array with {self.shape[1]} rows."
            )
        block = DistributedArray(V.rechunk({1: -1}) if V.ndim == 2 else V, Layout(V.chunks[0], V.chunks[0]), [])
        return self.hand_out(super().__matmul__(block))

    def at_new_points(self, X: Any, Z: Any, out: FloatArray | None = None) -> Any:
        """``a(x) Z`` for new points: each point's own row of ``diag(w) S``, times coefficients.

        Parameters
        ----------
        X : Dask array of shape (m, d) in chunks of rows, or ndarray
        Z : DistributedArray of shape (N, k)
        out : ndarray of shape (m, k), optional
            Where to write the result, if X is an ndarray.

        Returns
        -------
        Y : Dask array of shape (m, k) in the chunks of X, planned; or ndarray
        """
        if not is_dask_array(X):
            dask = optional("dask.array", "compute on a cluster", "dask")
            X = X.toarray() if sparse.issparse(X) else X
            found = gathered(self.at_new_points(dask.from_array(X, chunks=(self.layout.sizes[0], -1)), Z))
            if out is None:
                return found
            out[:] = found
            return out
        ones, scaled = self.ones()[:, None], self.scaling.scale[:, None] * Z.astype(np.float64)
        columns = ones.__array_namespace__().concat([ones, self.scaling.reference[:, None], scaled], axis=1)
        columns = columns.laid_out(self.layout).computed().values
        products, log_scale = self.affinity.row_products(X, columns)
        plan = Plan(products, log_scale)
        factors = self.scaling.left_factor
        starts = np.concatenate([[0], np.cumsum(X.chunks[0])])
        for q, (sums, logs) in enumerate(zip(plan.keys(products), plan.keys(log_scale), strict=True)):
            plan.add("place-new-points", (q, 0), _place, sums, logs, factors, int(starts[q]), np.dtype(Z.dtype).str)
        return plan.array("place-new-points", X.chunks[0], Z.shape[1], Z.dtype)


@compose_kernel.register
def _(affinity: BandedAffinity, scaling: Scaling, rule: str | None) -> HeatKernel:
    return BandedHeatKernel.from_affinity(affinity, scaling, rule)


def _place(sums: FloatArray, log_scale: FloatArray, left: LeftFactor, first: int, dtype: str) -> FloatArray:
    """New points from the sums of their kernel rows: degrees, those against the reference, and coordinates."""
    degrees, against = sums[:, 0], sums[:, 1]
    refuse_alone(degrees, first)
    placed: FloatArray = left(degrees, against, log_scale)[:, None] * sums[:, 2:]
    return placed.astype(dtype)
