"""The paper's data sets, and one of real data for examples.

Sampling is uniform in the sense of the paper's section 5: uniform in arc length on the circle, uniform on the flat
torus, uniform in the parameters (u, v) on the Klein bottle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ._utils.typing import FloatArray, IntArray, RandomState

__all__ = ["circle", "circle_with_outliers", "digits", "gaussian_clouds", "klein_bottle", "stretched_torus"]


def _generator(random_state: RandomState) -> np.random.RandomState | np.random.Generator:
    if isinstance(random_state, np.random.Generator):
        return random_state
    generator: np.random.RandomState = check_random_state(random_state)
    return generator


def _positive(n: int, least: int = 1) -> int:
    if int(n) != n or n < least:
        raise ValueError(f"n={n!r} was given; it must be an integer of at least {least}.")
    return int(n)


def circle(n: int = 300, random_state: RandomState = None, *, return_parameters: bool = False) -> Any:
    """Points from the uniform measure on the unit circle.

    Parameters
    ----------
    n : int
    random_state : int, RandomState, Generator or None
    return_parameters : bool
        Whether to return the angles too.

    Returns
    -------
    X : ndarray of shape (n, 2)
    theta : ndarray of shape (n,)
        Angles in [0, 2 pi), if `return_parameters`.
    """
    theta = _generator(random_state).uniform(0.0, 2.0 * np.pi, _positive(n))
    X = np.column_stack([np.cos(theta), np.sin(theta)])
    return (X, theta) if return_parameters else X


def stretched_torus(
    n: int = 500, radius: float = 3.5, random_state: RandomState = None, *, return_parameters: bool = False
) -> Any:
    """Points from the uniform measure on the flat torus S^1 x r S^1 in R^4.

    Parameters
    ----------
    n : int
    radius : float
        r; the paper's is 3.5.
    random_state : int, RandomState, Generator or None
    return_parameters : bool
        Whether to return the angles too.

    Returns
    -------
    X : ndarray of shape (n, 4)
        ``(cos u, sin u, r cos v, r sin v)``.
    angles : ndarray of shape (n, 2)
        u and v, if `return_parameters`.
    """
    if not 0 < radius < np.inf:
        raise ValueError(f"radius={radius!r} was given; it must be a positive, finite number.")
    angles = _generator(random_state).uniform(0.0, 2.0 * np.pi, (_positive(n), 2))
    u, v = angles.T
    X = np.column_stack([np.cos(u), np.sin(u), radius * np.cos(v), radius * np.sin(v)])
    return (X, angles) if return_parameters else X


def klein_bottle(
    n: int = 500,
    a: float = 10.0,
    b: float = 5.0,
    random_state: RandomState = None,
    *,
    return_parameters: bool = False,
) -> Any:
    """Points on the Klein bottle in R^4, uniform in its parameters.

    Parameters
    ----------
    n : int
    a, b : float
        Radii; the paper's are 10 and 5.
    random_state : int, RandomState, Generator or None
    return_parameters : bool
        Whether to return the parameters too.

    Returns
    -------
    X : ndarray of shape (n, 4)
        ``((a + b cos v) cos u, (a + b cos v) sin u, b sin v cos(u/2), b sin v sin(u/2))``.
    parameters : ndarray of shape (n, 2)
        u and v in [0, 2 pi), if `return_parameters`.
    """
    parameters = _generator(random_state).uniform(0.0, 2.0 * np.pi, (_positive(n), 2))
    u, v = parameters.T
    ring, tube = a + b * np.cos(v), b * np.sin(v)
    X = np.column_stack([ring * np.cos(u), ring * np.sin(u), tube * np.cos(u / 2), tube * np.sin(u / 2)])
    return (X, parameters) if return_parameters else X


def circle_with_outliers(n: int = 200, random_state: RandomState = None, *, return_parameters: bool = False) -> Any:
    """``n - 2`` points from the uniform measure on the unit circle, then the outliers (0, 3) and (3, 0).

    Parameters
    ----------
    n : int
        Number of points, including the two outliers.
    random_state : int, RandomState, Generator or None
    return_parameters : bool
        Whether to return the angles too.

    Returns
    -------
    X : ndarray of shape (n, 2)
        The outliers are the last two rows.
    theta : ndarray of shape (n,)
        Angles, including those of the outliers, if `return_parameters`.
    """
    X, theta = circle(_positive(n, 3) - 2, random_state, return_parameters=True)
    X = np.vstack([X, [[0.0, 3.0], [3.0, 0.0]]])
    theta = np.concatenate([theta, [np.pi / 2, 0.0]])
    return (X, theta) if return_parameters else X


def gaussian_clouds(
    n: int = 300,
    n_clouds: int = 3,
    n_features: int = 10,
    separation: float = 5.0,
    random_state: RandomState = None,
    *,
    return_labels: bool = False,
) -> Any:
    """Gaussian point clouds of unit variance whose centres have the same distance from each other.

    The paper plots such clouds without giving their parameters; the defaults are our choice.

    Parameters
    ----------
    n : int
        Total number of points, divided evenly among the clouds.
    n_clouds, n_features : int
        At most as many clouds as features.
    separation : float
        Distance between any two centres, in standard deviations.
    random_state : int, RandomState, Generator or None
    return_labels : bool
        Whether to return the labels too.

    Returns
    -------
    X : ndarray of shape (n, n_features)
    labels : ndarray of int, shape (n,)
        The cloud of each point, if `return_labels`.
    """
    if not 1 <= n_clouds <= n_features:
        raise ValueError(
            f"n_clouds={n_clouds} was given with n_features={n_features}; it must be between 1 and n_features."
        )
    n = _positive(n)
    labels: IntArray = np.arange(n) % n_clouds
    centres = separation / np.sqrt(2.0) * np.eye(n_clouds, n_features)
    X = centres[labels] + _generator(random_state).normal(size=(n, n_features))
    return (X, labels) if return_labels else X


def digits() -> tuple[FloatArray, IntArray]:
    """Handwritten digits: 1797 images of 8 x 8 pixels, shipped with scikit-learn.

    Returns
    -------
    X : ndarray of shape (1797, 64)
        Grey values from 0 to 16.
    labels : ndarray of int, shape (1797,)
    """
    from sklearn.datasets import load_digits  # noqa: PLC0415

    X, labels = load_digits(return_X_y=True)
    return X, labels
