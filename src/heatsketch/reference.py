"""The paper on one page: Algorithms 1 to 5 of [1]_ in plain NumPy, as they are printed, and all times at once.

Every embedding of this package is ``Y = h(A) M``: A is the heat kernel of the data, h says which diffusion times are
kept, ``h(x) = x^t`` in the paper, and M what is kept of the result. The estimators compute the same for large data; the
tests compare them with this page.

.. [1] Gilbert, O'Neill. "Sketching the Heat Kernel: Using Gaussian Processes to Embed Data". arXiv:2403.07929.

Examples
--------
>>> import numpy as np
>>> import heatsketch as hs
>>> from heatsketch import reference
>>> X = hs.datasets.circle(200, random_state=0)
>>> A = reference.bistochastic_kernel(X, bandwidth=0.25)
>>> Y = reference.gaussian_process_embedding(A, n_components=1000, power=4, random_state=0)
>>> d = reference.diffusion_distances(A, power=4)
>>> ratios = np.linalg.norm(Y[0] - Y[1:], axis=1) / d[0, 1:]
>>> bool(np.abs(ratios - 1).max() < 0.15)
True
"""

from __future__ import annotations

import numpy as np

from ._utils.typing import FloatArray

__all__ = [
    "bernoulli_embedding",
    "bistochastic_kernel",
    "diffusion_distances",
    "diffusion_maps",
    "embed",
    "gaussian_affinity",
    "gaussian_process_embedding",
    "multiscale",
    "symmetric_kernel",
]


def gaussian_affinity(X: FloatArray, bandwidth: float) -> FloatArray:
    """``K_ij = exp(-|x_i - x_j|^2 / epsilon)``, shape (N, N), of points X of shape (N, d).

    Examples
    --------
    >>> gaussian_affinity(np.array([[0.0], [1.0]]), bandwidth=1.0).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """
    squared = np.square(X[:, None, :] - X[None, :, :]).sum(axis=2)  # (N, N)
    return np.asarray(np.exp(-squared / bandwidth))


def symmetric_kernel(X: FloatArray, bandwidth: float, alpha: float = 1.0) -> FloatArray:
    """Algorithm 1: the symmetric normalisation, shape (N, N).

    The density exponent `alpha` is 1 in the paper. The largest eigenvalue is 1, of the eigenvector ``sqrt(v)``.

    Examples
    --------
    >>> A = symmetric_kernel(np.array([[0.0], [1.0], [3.0]]), bandwidth=1.0)
    >>> bool(np.isclose(np.linalg.eigvalsh(A)[-1], 1.0))
    True
    """
    K = gaussian_affinity(X, bandwidth)
    q = K.sum(axis=1) ** alpha
    K = K / np.outer(q, q)
    v = K.sum(axis=1)
    return np.asarray(K / np.sqrt(np.outer(v, v)))


def bistochastic_kernel(X: FloatArray, bandwidth: float, tol: float = 1e-8) -> FloatArray:
    """Algorithm 2: the bistochastic normalisation, symmetric with row sums of 1, shape (N, N).

    The paper's last line takes the iterates i and i + 2. The iteration settles into a two-cycle ``c d, d / c``, so two
    consecutive iterates are needed, as the text before the algorithm says.

    Examples
    --------
    >>> A = bistochastic_kernel(np.array([[0.0], [1.0], [3.0]]), bandwidth=1.0)
    >>> bool(np.allclose(A.sum(axis=1), 1.0))
    True
    """
    K = gaussian_affinity(X, bandwidth)
    before, d = np.ones(len(K)), K.sum(axis=1)
    while True:
        after = K @ (1.0 / d)
        if np.abs(after / before - 1.0).max() <= tol:
            break
        before, d = d, after
    scale = np.sqrt(d * after)
    return np.asarray(K / np.outer(scale, scale))


def embed(A: FloatArray, M: FloatArray, power: int) -> FloatArray:
    """``Y = A^t M``, shape (N, k), of a kernel (N, N) and a matrix M of shape (N, k).

    Examples
    --------
    >>> A = np.array([[0.75, 0.25], [0.25, 0.75]])
    >>> embed(A, np.array([[1.0], [0.0]]), power=2)  # where the heat of point 0 is after two steps
    array([[0.625],
           [0.375]])
    """
    return np.asarray(np.linalg.matrix_power(A, power) @ M)


def diffusion_maps(A: FloatArray, n_components: int, power: float) -> FloatArray:
    """Algorithm 3: ``y_j = (lambda_l^t v_l(j))`` for l = 1, ..., k without the trivial l = 0, shape (N, k).

    Examples
    --------
    >>> diffusion_maps(np.array([[0.75, 0.25], [0.25, 0.75]]), n_components=1, power=2).shape
    (2, 1)
    """
    values, vectors = np.linalg.eigh(A)  # increasing
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = slice(1, n_components + 1)
    return np.asarray(values[kept] ** power * vectors[:, kept])


def gaussian_process_embedding(
    A: FloatArray, n_components: int, power: int, random_state: int | None = None
) -> FloatArray:
    """Algorithm 4: ``Y = A^p G / sqrt(k)`` with standard normal entries of G, shape (N, k).

    Examples
    --------
    >>> gaussian_process_embedding(np.eye(3), n_components=2, power=1, random_state=0).shape
    (3, 2)
    """
    G = np.random.default_rng(random_state).standard_normal((len(A), n_components))
    return embed(A, G / np.sqrt(n_components), power)


def bernoulli_embedding(A: FloatArray, n_components: int, power: int, random_state: int | None = None) -> FloatArray:
    """Algorithm 5: ``Y = A^p G / sqrt(k)`` with random signs as entries of G, shape (N, k).

    Examples
    --------
    >>> np.abs(bernoulli_embedding(np.eye(2), n_components=4, power=1, random_state=0))
    array([[0.5, 0.5, 0.5, 0.5],
           [0.5, 0.5, 0.5, 0.5]])
    """
    G = np.random.default_rng(random_state).choice([-1.0, 1.0], (len(A), n_components))
    return embed(A, G / np.sqrt(n_components), power)


def diffusion_distances(A: FloatArray, power: int) -> FloatArray:
    """Distances between the rows of ``A^t``, shape (N, N), which all embeddings approximate.

    Examples
    --------
    >>> diffusion_distances(np.array([[0.75, 0.25], [0.25, 0.75]]), power=1).round(3)
    array([[0.   , 0.707],
           [0.707, 0.   ]])
    """
    rows = np.linalg.matrix_power(A, power)
    return np.asarray(np.linalg.norm(rows[:, None, :] - rows[None, :, :], axis=2))


def multiscale(A: FloatArray, times: FloatArray, exponent: float = 0.5) -> FloatArray:
    """``h(A)``, shape (N, N), with ``h(x)^2 = sum_t t^a x^(2t) / tau_t`` and ``tau_t = sum_l lambda_l^(2t)``, l > 0.

    Every time has the same total variance before the weight ``t^a``; the trivial mode is left out. ``h(A) G / sqrt(k)``
    is a Gaussian process embedding, and distances between the rows of ``h(A)`` are what it estimates.

    Examples
    --------
    >>> multiscale(np.array([[0.75, 0.25], [0.25, 0.75]]), times=np.array([1, 2])).round(3)
    array([[ 0.777, -0.777],
           [-0.777,  0.777]])
    """
    values, vectors = np.linalg.eigh(A)  # increasing
    values, vectors = values[:-1], vectors[:, :-1]
    powers = values[:, None] ** (2 * times)  # (N - 1, n_times)
    h = np.sqrt((times**exponent * powers / powers.sum(axis=0)).sum(axis=1))
    return np.asarray(vectors * h @ vectors.T)
