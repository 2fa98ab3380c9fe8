"""Gaussian process embeddings: random sketches of the heat kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._utils.array import array_namespace, asarray_like
from .._utils.typing import FloatArray, RandomState
from ..analysis.distances import columns_for, components_for, embedded_distances, error_of, sketch_interval
from ..kernel.cost import Work
from ..kernel.operator import HeatKernel
from ..kernel.options import check_count
from ..kernel.plan import require_columns
from ..linalg.filters import MultiscaleFilter, Power
from ..linalg.range_finder import leading_directions
from ..linalg.sketch import SKETCHES, Sketch, make_sketch, resolve_seed
from ..optimize.deflation import best_split, measured_directions
from ._base import HeatEmbedding
from ._extend import Near

# Pairs on which the share of the sketched remainder is measured.
_SHARE_PAIRS = 2000


class GaussianProcessEmbedding(HeatEmbedding):
    r"""Embedding by a random sketch of the heat kernel, ``Y = h(A) G / sqrt(k)``.

    The columns of Y are realisations of a Gaussian process on the data whose covariance is ``h(A)^2``. Straight-line
    distances in Y estimate the diffusion distance, without bias in their squares and with a known law:
    ``k |y_i - y_j|^2 / d_ij^2`` is chi-square with k degrees of freedom. With ``power=t``, ``h(x) = x^t``, this is
    Algorithm 4 of [1]_, and Algorithm 5 with ``sketch="rademacher"``; by default h keeps all times. (For the
    normalisations to a Markov matrix, whose rows are compared with weights w, it is
    ``Y = diag(w) h(S) G / sqrt(k)`` with S the similar symmetric matrix.)

    Parameters
    ----------
    n_components : int or "auto", default=2
        k. Distances have a relative standard deviation of about ``1 / sqrt(2 k)``. "auto" takes as many as
        `distance_error` needs.
    power : float, {"auto", "multiscale"} or MultiscaleFilter, default="auto"
        Diffusion time t > 0, as in the paper: early times show small structure, late ones the coarse. "auto" and
        "multiscale" keep all times at once (``heatsketch.multiscale(kernel_)``), so that none has to be chosen. Times
        that are not integers need a positive semidefinite kernel, such as that of all pairs with one bandwidth.
    bandwidth : float, {"auto", "self-tuning", "neighbor", "median", "slope"} or array, default="auto"
        Epsilon in ``exp(-|x - y|^2 / epsilon)``, as in the paper, or the rule that chooses it
        (:mod:`heatsketch.kernel.bandwidth`). "auto" gives each point a scale of its own ("self-tuning"). An array
        holds the squared scales of the training points, such as `bandwidth_`.
    n_neighbors : int, None or "auto", default="auto"
        Number of neighbours of each point that the kernel keeps; None keeps all pairs. "auto" keeps 15 neighbours if
        each point has a scale of its own. With a single bandwidth it keeps all pairs of up to 10,000 points, and of
        more points if that takes only seconds; otherwise 32 neighbours.
    normalization : {"bistochastic", "symmetric", "stochastic", "bistochastic-weighted"}, default="bistochastic"
        The paper's Algorithm 2 or 1, the Markov matrix, or bistochastic with weights that correct uneven sampling
        (:mod:`heatsketch.kernel.normalize`).
    alpha : float, default=1.0
        Density exponent of all normalisations but "bistochastic": 0 keeps the sampling density, 1 removes it.
    affinity : {"gaussian", "precomputed"}, default="gaussian"
        "precomputed": X is a symmetric non-negative matrix, dense or sparse, or a networkx or igraph graph.
    metric : str or callable, default="euclidean"
        A metric of :func:`sklearn.metrics.pairwise_distances`, or "precomputed": X holds distances.
    metric_params : dict or None, default=None
        Parameters of the metric, such as ``{"p": 3}`` for "minkowski".
    sketch : {"gaussian", "rademacher", "rademacher-hash", "columns"} or array (n_samples, k), default="gaussian"
        Law of the random matrix: normals, signs, signs from a hash with 244 random bits, sampled columns of the kernel;
        or the matrix itself (it is divided by sqrt(k)). k signs map two isolated points to the same place with
        probability 2^-k, so use normals for outliers and few components.
    n_exact : int or "auto", default=0
        Number of leading directions that are computed exactly: eigenvectors up to 2000 points, for more those of a
        randomized range finder. The other ``k - n_exact`` components sketch the remainder. Squared distances stay
        unbiased. Their variance is multiplied by ``k / (k - n_exact)`` times the squared share of the remainder: far
        smaller if the leading directions carry most of a distance (late times, many components), larger if they
        carry little. "auto" takes the number with the smallest error predicted over random pairs
        (:func:`heatsketch.optimize.deflation.best_split`).
    distance_error : float, default=0.1
        Relative error of distances for ``n_components="auto"``, for each single pair with probability .95.
        (``n_components=heatsketch.components_for(error, n_samples)`` bounds all pairs at once.)
    device : {"auto", "cpu", "cuda", "cuda:1", "torch-cpu"}, default="auto"
        NumPy on the CPU, or PyTorch. "auto" uses a GPU if there is one and the work is large enough.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the sketch. An integer gives the same embedding on any number of threads. The first columns of a sketch
        do not depend on their number.
    verbose : bool, default=False
        Show progress, and what was chosen, on standard error.
    kernel_params : dict or None, default=None
        Expert options of the kernel: "bandwidth_neighbor", "cutoff", "diagonal", "max_iter", "precision" and "tol", as
        in :func:`heatsketch.heat_kernel`.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components), or a tensor if X is one
    n_components_ : int
    distance_error_ : float
        Error reached by ``add_components(distance_error=...)``.
    kernel_ : HeatKernel
        The heat kernel as an operator.
    bandwidth_ : float, ndarray of shape (n_samples,), or None
        Epsilon, or the squared scale of each point; ``bandwidth=model.bandwidth_`` repeats it. None for a precomputed
        affinity.
    intrinsic_dimension_ : float or None
        Estimated on access from the growth of neighbourhoods; None for a precomputed affinity.
    density_ : ndarray of shape (n_samples,)
        Density of the data around each point, relative to the median; estimated on access from the kernel's scales.
    power_ : float or MultiscaleFilter
        Diffusion time, or the filter with its times and weights; ``power=model.power_`` repeats it.
    n_neighbors_ : int or None
        None if the kernel keeps all pairs, or those above a cutoff.
    n_iter_ : int
        Products with the affinity spent on the normalisation.
    scaling_residual_ : float
        Measured ``max |row sum - 1|``, for the bistochastic normalisations.
    n_exact_ : int
        Exact directions among the components.
    seed_ : int
        Seed that reproduces the sketch.
    sketch_ : Sketch
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If X has string column names.
    sample_names_ : ndarray of shape (n_samples,)
        Nodes of a graph, the index of a pandas frame, or 0, 1, 2, ...

    See Also
    --------
    DiffusionMaps : Embedding by the leading eigenvectors of the same kernel.

    References
    ----------
    .. [1] Gilbert, O'Neill. "Sketching the Heat Kernel: Using Gaussian Processes to Embed Data". arXiv:2403.07929.

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.stretched_torus(500, random_state=0)
    >>> embedding = hs.GaussianProcessEmbedding(n_components=8, power=10, bandwidth=0.3, random_state=0)
    >>> embedding.fit_transform(X).shape
    (500, 8)
    >>> estimate, low, high = embedding.diffusion_distances([[0, 1]], interval=0.95)
    >>> bool(low[0] < estimate[0] < high[0])
    True
    """

    _exact: FloatArray | None
    embedding_: Any
    n_components_: int
    seed_: int
    sketch_: Sketch

    def __init__(
        self,
        n_components: int | str = 2,
        *,
        power: float | str | MultiscaleFilter = "auto",
        bandwidth: float | str | FloatArray = "auto",
        n_neighbors: int | str | None = "auto",
        normalization: str = "bistochastic",
        alpha: float = 1.0,
        affinity: str = "gaussian",
        metric: str | Callable[..., float] = "euclidean",
        metric_params: dict[str, Any] | None = None,
        sketch: str | ArrayLike = "gaussian",
        n_exact: int | str = 0,
        distance_error: float = 0.1,
        device: str = "auto",
        random_state: RandomState = None,
        verbose: bool = False,
        kernel_params: dict[str, Any] | None = None,
    ) -> None:
        self.n_components = n_components
        self.power = power
        self.bandwidth = bandwidth
        self.n_neighbors = n_neighbors
        self.normalization = normalization
        self.alpha = alpha
        self.affinity = affinity
        self.metric = metric
        self.metric_params = metric_params
        self.sketch = sketch
        self.n_exact = n_exact
        self.distance_error = distance_error
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.kernel_params = kernel_params

    def _check_parameters(self) -> None:
        accepted = "a non-negative integer or 'auto'"
        r = 0 if self.n_exact == "auto" else check_count(self.n_exact, "n_exact", accepted, least=0)
        named = isinstance(self.sketch, str)
        if named:
            make_sketch(self.sketch, 0, 1)  # raises for unknown names before any work
        elif self.n_exact == "auto":
            raise ValueError(
                "n_exact='auto' was given with an array as sketch; the number of directions is only chosen for named "
                "sketches. Give the number."
            )
        if isinstance(self.n_components, str):
            with_law = [name for name, kind in SKETCHES.items() if kind.distance_law is not None]
            if not named or self.sketch not in with_law:
                raise ValueError(
                    "n_components='auto' follows from the law of the sketch, which this one does not have; use one of "
                    f"the sketches {with_law}, or give a number."
                )
            return
        left = self.n_components - r
        if left < 1:
            raise ValueError(
                f"n_exact={r} of n_components={self.n_components} were given; at least one component must be left to "
                "sketch the remainder. For eigenvectors alone use DiffusionMaps."
            )
        if not named and np.shape(self.sketch)[1:] != (left,):
            raise ValueError(
                f"sketch was given as an array of shape {np.shape(self.sketch)}; with n_components={self.n_components} "
                f"and n_exact={r} it must be of shape (n_samples, {left})."
            )

    def _n_embedded(self) -> int:
        if not isinstance(self.n_components, str):
            return int(self.n_components)
        return components_for(self.distance_error) + (0 if self.n_exact == "auto" else int(self.n_exact))

    def _work(self, n_samples: int) -> Work:
        k = self._n_embedded()
        return Work(k, directions=measured_directions(k, n_samples) if self.n_exact == "auto" else int(self.n_exact))

    def _matrix(self, kernel: HeatKernel, power: Power, near: Near | None = None) -> Any:
        if near is None:
            k, self.seed_ = self._n_embedded(), resolve_seed(self.random_state)
        else:
            k = near.embedding.shape[1]
            if not isinstance(self.sketch, str):
                raise ValueError(
                    f"samples were added to a sketch that was given as an array of shape {np.shape(self.sketch)}; fit "
                    "to all samples with an array of as many rows, or use a named sketch."
                )
        self._exact = self._exact_directions(kernel, k, power)
        self.n_exact_ = 0 if self._exact is None else self._exact.shape[1]
        sketch = self.sketch if isinstance(self.sketch, str) else kernel.collect(self.sketch)
        self.sketch_ = make_sketch(sketch, self.seed_, kernel.shape[0])
        return self._exact_and_sketched(kernel, k - self.n_exact_)

    def _matrix_again(self) -> Any:
        return self._exact_and_sketched(self.kernel_, self._n_sketched)

    def _exact_directions(self, kernel: HeatKernel, k: int, power: Power) -> Any:
        """The directions that are not sketched, (N, r), or None."""
        if self.n_exact == "auto":
            directions = best_split(kernel, k, power, self.seed_).directions
            return directions if directions.shape[1] else None
        return leading_directions(kernel, int(self.n_exact), power) if self.n_exact else None

    def _exact_and_sketched(self, kernel: HeatKernel, m: int) -> Any:
        """M: the exact directions Q, if any, and m columns ``(I - Q Q^T) G / sqrt(m)``."""
        M = self._sketched(kernel, 0, m) / np.sqrt(m)
        if self._exact is None:
            return M
        return array_namespace(M).concat([asarray_like(self._exact, M, np.float64), M], axis=1)

    def _sketched(self, kernel: HeatKernel, first: int, count: int) -> Any:
        """Columns of the sketch, orthogonal to the exact directions: ``(I - Q Q^T) G``, (N, count)."""
        G = kernel.sketched(self.sketch_, count, first_column=first)
        if self._exact is None:
            return G
        Q = asarray_like(self._exact, G, np.float64)
        return G - Q @ (Q.T @ G)

    @property
    def _n_sketched(self) -> int:
        """Number of sketched components."""
        return int(self.n_components_ - self.n_exact_)

    def _add(self, n: int) -> None:
        # More columns of the same sketch: the result equals a fit with all of them from the start.
        kernel, m, r, Y = self.kernel_, self._n_sketched, self.n_exact_, self._Y
        M = self._sketched(kernel, m, n) / np.sqrt(m + n)
        new = kernel.collect(self._diffused(kernel, M, self.power_))
        shrink = np.ones(self.n_components_)
        shrink[r:] = np.sqrt(m / (m + n))
        new_rows = self._placed(kernel, new, self.power_).astype(Y.dtype, copy=False)
        concat = array_namespace(new).concat
        self._coefficients = concat([self._coefficients * shrink.astype(new.dtype), new], axis=1)
        self.embedding_ = kernel.hand_out(concat([Y * shrink.astype(Y.dtype), new_rows], axis=1))
        self.n_components_ += n

    def _add_until(self, wanted: float) -> float:
        if not self._has_law:
            return super()._add_until(wanted)
        while True:
            shares, m = self._remainder_shares(), self._n_sketched
            needed = columns_for(wanted, shares)
            if needed <= m:
                return error_of(m, shares)
            # With exact directions the shares are estimates, which more columns sharpen.
            more = (min(needed, 2 * m) if self.n_exact_ else needed) - m
            require_columns(self.kernel_, self.n_components_ + more)
            self._add(more)

    def _remainder_shares(self) -> FloatArray:
        """Share of the sketched remainder in squared distances, for random pairs."""
        if not self.n_exact_:
            return np.ones(1)
        Y, r = self._Y, self.n_exact_
        pairs = np.random.default_rng(self.seed_).integers(0, Y.shape[0], (_SHARE_PAIRS, 2))
        exact, sketched = (np.square(embedded_distances(part, pairs)) for part in (Y[:, :r], Y[:, r:]))
        apart = exact + sketched > 0
        shares: FloatArray = sketched[apart] / (exact + sketched)[apart]
        return shares

    @property
    def _has_law(self) -> bool:
        """Whether distances follow the law of a random sketch."""
        return self.sketch_.distance_law is not None

    def _interval(self, pairs: ArrayLike | None, level: float) -> tuple[FloatArray, FloatArray]:
        if not self._has_law:
            return super()._interval(pairs, level)
        return sketch_interval(self._Y, pairs, level, n_exact=self.n_exact_, kernel=self.kernel_, power=self.power_)
