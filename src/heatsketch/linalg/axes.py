"""Axes of an embedding whose directions have no meaning of their own."""

from __future__ import annotations

import numpy as np

from .._utils.typing import FloatArray

__all__ = ["balanced_axes"]


def balanced_axes(Y: FloatArray) -> FloatArray:
    """Rotation R, (k, k), after which Y R lies along its principal axes (k <= 2) or has equal variances on all axes.

    No distance depends on it. In the plane the picture lies along its longest direction. With more components, methods
    that standardise each coordinate would give the last principal axes, which are mostly noise, as much weight as the
    first; coordinates of equal variance are left as they are. Such a rotation exists for all data (Schur and Horn) and
    takes k - 1 rotations of two axes, each of which gives one axis the mean variance.
    """
    centred = (Y - Y.mean(axis=0)).astype(np.float64)
    k = Y.shape[1]
    C = centred.T @ centred / len(Y)
    R = np.linalg.eigh(C)[1][:, ::-1].copy()
    turned = centred @ R
    # The largest entry is positive, so that rounding does not flip an axis.
    R *= np.where(turned[np.abs(turned).argmax(axis=0), np.arange(k)] < 0, -1.0, 1.0)
    if k <= 2:
        return R
    C, mean = R.T @ C @ R, np.trace(C) / k
    for _ in range(k - 1):
        low, high = int(np.argmin(C.diagonal())), int(np.argmax(C.diagonal()))
        below, above, both = mean - C[low, low], C[high, high] - mean, C[low, high]
        if below <= 0 or above <= 0:
            break
        # tan(angle) for which axis `low` gets the mean variance: above t^2 + 2 both t - below = 0.
        t = (
            below / (both + np.sqrt(both * both + above * below))
            if both > 0
            else ((np.sqrt(both * both + above * below) - both) / above)
        )
        cos = 1.0 / np.sqrt(1.0 + t * t)
        turn = np.eye(k)
        turn[[low, high], low], turn[[low, high], high] = (cos, t * cos), (-t * cos, cos)
        C, R = turn.T @ C @ turn, R @ turn
    return R
