"""Samples that are added to a fitted embedding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import orthogonal_procrustes

from .._utils.array import to_numpy
from .._utils.typing import FloatArray
from ..kernel.affinity import GaussianAffinity
from ..kernel.operator import HeatKernel
from ..kernel.options import check_masses

__all__ = ["Near", "all_masses", "all_names", "all_points"]


@dataclass(frozen=True)
class Near:
    """An embedding that another one is to come out near.

    Attributes
    ----------
    embedding : ndarray of shape (n_before, k)
        The earlier samples, which come first.
    points : ndarray or sparse array of shape (n_added, d)
        The new samples.
    """

    embedding: FloatArray
    points: Any

    @property
    def is_start(self) -> bool:
        """Whether a search should begin there: not if most samples are new."""
        return bool(self.points.shape[0] <= len(self.embedding))

    def signs(self, Y: Any) -> FloatArray:
        """Signs of the columns of Y, (N, k), with which it is nearest, (k,)."""
        along = (to_numpy(Y)[: len(self.embedding)] * self.embedding).sum(axis=0)
        return np.where(along < 0, -1.0, 1.0)

    def rotation(self, Y: Any) -> FloatArray:
        """Rotation, with reflections, after which Y, (N, k), is nearest, (k, k)."""
        here, there = self._centred(Y)
        turned: FloatArray = orthogonal_procrustes(here, there)[0]
        return turned

    def distances(self, Y: Any) -> FloatArray:
        """How far each earlier sample is from its place in Y, relative to the root mean square radius, (n_before,).

        Diffusion distances shrink when samples are added, like one over the root of their number: Y is measured in the
        unit in which it is nearest.
        """
        here, there = self._centred(Y)
        unit = np.vdot(here, there) / (np.vdot(here, here) or 1.0)
        moved: FloatArray = np.linalg.norm(unit * here - there, axis=1)
        return moved / float(np.sqrt(np.square(there).sum(axis=1).mean()))

    def _centred(self, Y: Any) -> tuple[FloatArray, FloatArray]:
        """Earlier samples in Y and in the embedding, about their means, in a unit whose squares do not underflow."""
        both = [to_numpy(Z)[: len(self.embedding)].astype(np.float64) for Z in (Y, self.embedding)]
        unit = float(np.abs(both[1]).max()) or 1.0
        here, there = ((Z - Z.mean(axis=0)) / unit for Z in both)
        return here, there


def all_points(kernel: HeatKernel, points: Any, bandwidth: Any) -> Any:
    """The points of a kernel and new ones, (N + m, d)."""
    affinity = kernel.affinity
    if not isinstance(affinity, GaussianAffinity) or affinity.metric.precomputed or not kernel.in_memory:
        raise ValueError(
            "samples were added to a model of a precomputed matrix, a graph, or data on a cluster; extend needs the "
            "coordinates of all samples in memory. Fit to all samples at once."
        )
    if np.ndim(bandwidth):
        raise ValueError(
            "samples were added to a model whose bandwidth is an array with a scale for each sample of its fit; use "
            "set_params(bandwidth='self-tuning') first, which finds the scales of all samples."
        )
    stack = sparse.vstack if sparse.issparse(points) else np.vstack
    return stack([affinity.X, points.astype(affinity.X.dtype, copy=False)])


def all_masses(kernel: HeatKernel, sample_weight: Any, m: int) -> FloatArray | None:
    """Masses of the points of a kernel and of m new ones, (N + m,); None if all are 1."""
    new, scaling = check_masses(sample_weight, m), kernel.scaling
    known = None if scaling is None else scaling.masses
    if new is None and known is None:
        return None
    ones = np.ones(kernel.shape[0]), np.ones(m)
    return np.concatenate([ones[0] if known is None else to_numpy(known), ones[1] if new is None else new])


def all_names(before: Any, new: Any) -> Any:
    """Names of earlier samples and of new ones, an index or a list; None unless both have names."""
    if before is None or new is None:
        return None
    return before.append(new) if hasattr(before, "nlevels") and hasattr(new, "nlevels") else [*before, *new]
