"""From positions in an embedding back to data, by local linear regression.

The 30 nearest embedded points of a place y are weighted by ``w_i = 1 / |y - y_i|``, and a linear function
``x(y) = a + B (y - c)``, with c the mean of their places, is fitted to their data with a ridge penalty on B [1]_. The
result is linear in the data: ``x(y) = sum_i u_i(y) x_i`` with weights u that add up to 1. At the place of an embedded
point it is that point, as for inverse distance weighting [2]_, which is the limit of large penalties.

The weights, their number and the penalty were chosen for the least error on new points of nine data sets, with 2 and 10
components; ``python -m benchmarks.labels inverse`` measures it on others. Without a penalty, 30 neighbours in 10
dimensions would be fitted with their noise.

References
----------
.. [1] Fan, Gijbels. "Local polynomial modelling and its applications". Chapman and Hall, 1996.
.. [2] Shepard. "A two-dimensional interpolation function for irregularly-spaced data". ACM National Conference, 1968.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from .._utils.chunks import chunks
from .._utils.typing import FloatArray, IntArray
from ..linalg.metrics import Metric, magnitude
from ..neighbors.search import make_index

__all__ = ["local_weights"]

_NEIGHBORS = 30
# In units of the mean variance of the neighbours' places along an axis.
_RIDGE = 0.5
# Distance below which a place is that of an embedded point, in units of the distance to the farthest neighbour.
_NEAREST = 1e-9
# Places are at most this far away, in units of the largest coordinate of the embedding.
_FAR = 1e3


def local_weights(Y: FloatArray, places: ArrayLike) -> sparse.csr_array:
    """Weights of the embedded points at each place; the data at the places are ``weights @ X``.

    Parameters
    ----------
    Y : ndarray of shape (N, k)
        The embedding.
    places : array-like of shape (m, k)

    Returns
    -------
    weights : csr_array of shape (m, N)
        At most 30 in each row; the sum of each row is 1. Some may be negative.

    Examples
    --------
    >>> import numpy as np
    >>> from heatsketch.analysis.inverse import local_weights
    >>> Y = np.arange(5.0)[:, None]
    >>> local_weights(Y, [[2.0], [2.5]]).toarray().round(2)
    array([[0.  , 0.  , 1.  , 0.  , 0.  ],
           [0.05, 0.1 , 0.34, 0.37, 0.14]])
    """
    unit = float(magnitude(Y)) or 1.0  # squares could underflow
    Y, at = np.asarray(Y, dtype=np.float64) / unit, np.asarray(places, dtype=np.float64)
    # Of places that are farther away, rounding would take the direction to their neighbours.
    at = at * np.minimum(1.0, _FAR * unit / np.maximum(np.abs(at).max(axis=1, keepdims=True, initial=0.0), unit)) / unit
    (n, k), m = Y.shape, len(at)
    count = min(_NEIGHBORS, n)
    index = make_index(Y, Metric(), queries=m)
    found, _ = index.query(at, count)
    neighbors = np.sort(index.order[found], axis=1)
    weights = np.empty((m, count))
    for rows in chunks(m, k * (count + k)):
        weights[rows] = _regression(Y, neighbors[rows], at[rows])
    return sparse.csr_array((weights.ravel(), neighbors.ravel(), np.arange(0, m * count + 1, count)), shape=(m, n))


def _regression(Y: FloatArray, neighbors: IntArray, places: FloatArray) -> FloatArray:
    """Weights of the neighbours, (m, count), in the ridge regression around each place."""
    k = Y.shape[1]
    P = Y[neighbors] - places[:, None]  # [m, count, k]
    distance = np.sqrt(np.square(P).sum(axis=2))
    radius = distance.max(axis=1, keepdims=True)
    radius[radius == 0] = 1.0
    P /= radius[:, :, None]
    w = 1.0 / np.maximum(distance / radius, _NEAREST)
    w /= w.sum(axis=1, keepdims=True)
    centre = np.einsum("mi,mik->mk", w, P)
    P -= centre[:, None]
    G = np.einsum("mi,mik,mil->mkl", w, P, P, optimize=True)
    variance = np.trace(G, axis1=1, axis2=2)
    # From the centre to the place. Far from all points a linear function says nothing: go no farther than the spread.
    step, length = -centre, np.sqrt(np.square(centre).sum(axis=1))
    step *= np.minimum(1.0, np.sqrt(variance) / np.maximum(length, np.finfo(float).tiny))[:, None]
    G += np.where(variance > 0, _RIDGE * variance / k, 1.0)[:, None, None] * np.eye(k)
    slope = np.linalg.solve(G, step[:, :, None])  # [m, k, 1]
    weights: FloatArray = w * (1.0 + (P @ slope)[:, :, 0])
    return weights
