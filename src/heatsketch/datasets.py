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

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.spatial.distance import squareform
    >>> import heatsketch as hs
    >>> X, theta = hs.datasets.circle(200, random_state=0, return_parameters=True)
    >>> turn = np.abs(theta[:, None] - theta)
    >>> arc = squareform(np.minimum(turn, 2 * np.pi - turn))
    >>> along = hs.geodesic_distances(hs.heat_kernel(X, bandwidth=0.05), power=8)
    >>> bool(np.corrcoef(arc, along)[0, 1] > 0.99)
    True
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

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> import heatsketch as hs
    >>> X, angles = hs.datasets.stretched_torus(500, random_state=0, return_parameters=True)
    >>> Y = hs.DiffusionMaps(n_components=2).fit_transform(X)
    >>> waves = [np.column_stack([np.cos(angle), np.sin(angle)]) for angle in angles.T]
    >>> [f"{LinearRegression().fit(wave, Y).score(wave, Y):.1f}" for wave in waves]  # Y shows the longer circle only
    ['0.0', '1.0']
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

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.klein_bottle(500, random_state=0)
    >>> flat, deep = (hs.DiffusionMaps(k, bandwidth="neighbor").fit(X).distortion().log for k in (2, 4))
    >>> print(f"log L is {flat:.1f} in two dimensions, {deep:.1f} in four")
    log L is 5.0 in two dimensions, 3.6 in four
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

    Examples
    --------
    >>> import numpy as np
    >>> import heatsketch as hs
    >>> model = hs.DiffusionMaps(n_components=2).fit(hs.datasets.circle_with_outliers(200, random_state=0))
    >>> np.abs(model.embedding_).argmax(axis=0)  # each component is about one outlier
    array([198, 199])
    >>> model.diagnose().names
    ('outlier',)
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

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> from sklearn.metrics import adjusted_rand_score
    >>> import heatsketch as hs
    >>> X, labels = hs.datasets.gaussian_clouds(300, random_state=0, return_labels=True)
    >>> Y = hs.DiffusionMaps(n_components=2).fit_transform(X)
    >>> bool(adjusted_rand_score(labels, KMeans(3, random_state=0).fit_predict(Y)) > 0.9)
    True
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

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> import heatsketch as hs
    >>> images, digits = hs.datasets.digits()
    >>> model = hs.DiffusionMaps(n_components=10).fit(images[:1000])
    >>> classifier = KNeighborsClassifier().fit(model.embedding_, digits[:1000])
    >>> bool(classifier.score(model.transform(images[1000:]), digits[1000:]) > 0.9)
    True
    """
    from sklearn.datasets import load_digits  # noqa: PLC0415

    X, labels = load_digits(return_X_y=True)
    return X, labels
