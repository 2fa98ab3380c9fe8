"""Gaussian process embeddings: random sketches of the heat kernel."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._utils.array import array_namespace, asarray_like, to_numpy
from .._utils.typing import FloatArray, RandomState
from ..analysis.distances import columns_for, components_for, embedded_distances, error_of, sketch_interval
from ..analysis.distortion import distortion_measure
from ..kernel.operator import HeatKernel
from ..kernel.options import check_count
from ..linalg.diffusion import coefficients, diffuse
from ..linalg.metrics import magnitude
from ..linalg.range_finder import leading_directions
from ..linalg.sketch import SKETCHES, Sketch, make_sketch, resolve_seed
from ..optimize.deflation import best_split
from ._base import HeatEmbedding

_TRIVIAL = ("auto", "keep", "drop")
# Differences below this many units in the last place of a constant that was kept are worth a warning.
_DROWNED = 1e6
# Pairs on which the share of what is sketched is measured.
_SHARE_PAIRS = 2000
# Components up to which more are added where the error must be measured.
_MOST_MEASURED = 4096
_NEXT_SEED = 0x9E3779B97F4A7C15  # from one seed to the next: all 64 bits change


class GaussianProcessEmbedding(HeatEmbedding):
    r"""Embedding by a random sketch of the heat kernel, ``Y = A^p G / sqrt(k)``.

    The columns of Y are realisations of a Gaussian process on the data whose covariance is the heat kernel
    ``A^(2p)``. Straight-line distances in Y estimate the diffusion distance at time p, without bias in their squares
    and with a known law: ``k |y_i - y_j|^2 / d_ij^2`` is chi-square with k degrees of freedom. This is Algorithm 4 of
    [1]_, and Algorithm 5 with ``sketch="rademacher"``. (For the normalisations to a Markov matrix, whose rows are
    compared with weights w, it is ``Y = diag(w) S^p G / sqrt(k)`` with S the similar symmetric matrix.)

    Parameters
    ----------
    n_components : int or "auto", default=2
        k. Distances have a relative standard deviation of about ``1 / sqrt(2 k)``. "auto" takes as many as
        `distance_error` asks for.
    power : float or {"auto", "paths", "entropy"}, default=8
        Diffusion time, the paper's p: any positive number, whole or not, or the rule that chooses a whole one
        (:mod:`heatsketch.analysis.power`): "paths" the time at which diffusion distances are closest to shortest paths
        between the points, "entropy" by the von Neumann entropy of the kernel; "auto" is "paths", or "entropy" for a
        precomputed affinity.
    bandwidth : float or {"auto", "median", "neighbor", "slope", "self-tuning"}, default="auto"
        Epsilon in ``exp(-|x - y|^2 / epsilon)``, or the rule that chooses it (:mod:`heatsketch.kernel.bandwidth`).
        "auto" is
        "neighbor"; with a power by "paths" and every pair in use, both are chosen together.
    normalization : {"bistochastic", "symmetric", "stochastic", "bistochastic-weighted"}, default="bistochastic"
        The paper's Algorithm 2 or 1, the Markov matrix, or bistochastic with weights that correct uneven sampling
        (:mod:`heatsketch.kernel.normalize`).
    alpha : float, default=1.0
        Density exponent of all but plain "bistochastic".
    affinity : {"gaussian", "precomputed"}, default="gaussian"
        "precomputed": X is a symmetric non-negative matrix, dense or sparse, or a networkx or igraph graph.
    metric : str or callable, default="euclidean"
        A metric of :func:`sklearn.metrics.pairwise_distances`, or "precomputed": X holds distances.
    metric_params : dict or None, default=None
        Further parameters of the metric, such as ``{"p": 3}`` for "minkowski".
    bandwidth_neighbor : int or None, default=None
        The k of the bandwidth rules "neighbor" (10 if None) and "self-tuning" (7 if None).
    n_neighbors : int, None or "auto", default="auto"
        None uses every pair; an integer keeps the pairs within the larger of their two k-th neighbour radii;
        "auto" uses every pair while that is soon done (up to 10,000 points and somewhat beyond, whatever the number of
        cores) and 32 neighbours for more; ``kernel_.affinity.description`` tells what was chosen.
    cutoff : float or None, default=None
        Leave out pairs whose affinity is below this, such as 1e-6: the kernel is sparse, and exact to this tolerance.
    diagonal : {"auto", "keep", "zero"}, default="auto"
        "zero" sets the affinity of points with themselves to zero, which withstands heteroskedastic noise; "auto"
        keeps it, and completes self-loops that a precomputed affinity lacks.
    sketch : {"gaussian", "rademacher", "rademacher-hash", "columns"} or array (n_samples, k), default="gaussian"
        What the kernel is looked at through: normals, signs, signs from a hash with 244 bits of randomness, sampled
        columns of the kernel, or a matrix of your own (divided by sqrt(k)). Two isolated points are sent together by k
        signs with probability 2^-k: with outliers and few components use normals.
    n_exact : int or "auto", default=0
        Number of directions along which the kernel is not sketched but computed: the leading eigenvectors up to 2000
        points, for more the best that a random range finder gives
        (:func:`heatsketch.linalg.range_finder.leading_directions`). Only the remainder is then sketched, by the other
        ``k - n_exact`` components. Squared distances are unbiased whatever the directions. The variance of a pair's is
        multiplied by ``k / (k - n_exact)`` times the square of the remainder's share in it: far smaller where the
        leading directions carry most of a distance (large power, many components), larger where they carry little.
        "auto" takes the number with the smallest error predicted over random pairs, which may be 0
        (:func:`heatsketch.optimize.deflation.best_split`).
    n_init : int, default=1
        Number of sketches drawn, of which the one with the smallest measured distortion is kept. A sketch that was
        picked does not follow the law of one that was drawn: intervals then come from an independent one.
    trivial : {"auto", "keep", "drop"}, default="auto"
        What to do with the eigenvector of eigenvalue 1. "keep" gives the paper's matrix to the letter, whose distances
        at large powers drown in the rounding of a constant. "auto" drops the mode where it is constant and changes no
        distance (all normalisations but "symmetric"): differences then keep all their digits at large powers. "drop"
        leaves it out always; distances of the symmetric kernel are then those of its nontrivial part.
    distance_error : float, default=0.1
        Relative error of distances that ``n_components="auto"`` aims at.
    simultaneous : bool, default=False
        Whether that error shall hold for all pairs at once, with probability .95, or for each single pair.
    device : {"auto", "cpu", "cuda", "cuda:1", "torch-cpu"}, default="auto"
        NumPy on the CPU, or PyTorch on a GPU ("torch-cpu": on the CPU). "auto" takes a GPU where there is one and the
        work is worth it, or where X is a tensor on it.
    precision : {"auto", "halves", "mixed", "split", "float32"}, default="auto"
        How a GPU forms the exponents of a float32 kernel of all pairs (:mod:`heatsketch.backends.torch.halves`); "auto"
        takes the cheapest way that is accurate enough for the data.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the sketch. An integer gives the same embedding whatever the number of threads, and the first k columns
        of the sketch do not depend on how many are asked for.
    tol : float, default=1e-8
        Largest deviation of the bistochastic kernel's row sums from 1 (not below 7.6e-6 for float32).
    max_iter : int, default=1000
        Most products spent on the bistochastic scaling.
    verbose : bool, default=False
        Whether to show progress, and to say what was chosen, on standard error.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components), or a tensor where X is one
    n_components_ : int
    distance_error_ : float
        What ``add_components(distance_error=...)`` reached.
    kernel_ : HeatKernel
        The heat kernel as an operator.
    bandwidth_ : float, or ndarray of shape (n_samples,) for "self-tuning", or None for a precomputed affinity
    intrinsic_dimension_ : float or None
        Estimated when asked for, from the growth of neighbourhoods; None for a precomputed affinity.
    power_ : float
    power_choice_ : ChosenPower or None
        What the power was chosen by; None where it was given.
    n_neighbors_ : int or None
        None where pairs are not chosen by it: where every pair is used, or those above a cutoff.
    n_iter_ : int
        Products with the affinity spent on the normalisation.
    scaling_residual_ : float
        Measured ``max |row sum - 1|``, for the bistochastic normalisations.
    n_exact_ : int
        Exact directions among the components.
    seed_ : int
        Seed that repeats the sketch.
    sketch_ : Sketch
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        When X has string column names.
    sample_names_ : ndarray of shape (n_samples,)
        Nodes of a graph, or the index of a pandas frame; else 0, 1, 2, ...

    See Also
    --------
    DiffusionMaps : The same kernel seen through its leading eigenvectors.

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
    _keeps_trivial: bool
    sketch_: Sketch

    def __init__(
        self,
        n_components: int | str = 2,
        *,
        power: float | str = 8,
        bandwidth: float | str = "auto",
        normalization: str = "bistochastic",
        alpha: float = 1.0,
        affinity: str = "gaussian",
        metric: str | Callable[..., float] = "euclidean",
        metric_params: dict[str, Any] | None = None,
        bandwidth_neighbor: int | None = None,
        n_neighbors: int | str | None = "auto",
        cutoff: float | None = None,
        diagonal: str = "auto",
        sketch: str | ArrayLike = "gaussian",
        n_exact: int | str = 0,
        n_init: int = 1,
        trivial: str = "auto",
        distance_error: float = 0.1,
        simultaneous: bool = False,
        device: str = "auto",
        precision: str = "auto",
        random_state: RandomState = None,
        tol: float = 1e-8,
        max_iter: int = 1000,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.power = power
        self.bandwidth = bandwidth
        self.normalization = normalization
        self.alpha = alpha
        self.affinity = affinity
        self.metric = metric
        self.metric_params = metric_params
        self.bandwidth_neighbor = bandwidth_neighbor
        self.n_neighbors = n_neighbors
        self.cutoff = cutoff
        self.diagonal = diagonal
        self.sketch = sketch
        self.n_exact = n_exact
        self.n_init = n_init
        self.trivial = trivial
        self.distance_error = distance_error
        self.simultaneous = simultaneous
        self.device = device
        self.precision = precision
        self.random_state = random_state
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    def _check_parameters(self) -> None:
        if self.trivial not in _TRIVIAL:
            raise ValueError(f"trivial={self.trivial!r} is not known; use one of {_TRIVIAL}.")
        check_count(self.n_init, "n_init")
        accepted = "a non-negative integer or 'auto'"
        r = 0 if self.n_exact == "auto" else check_count(self.n_exact, "n_exact", accepted, least=0)
        named = isinstance(self.sketch, str)
        if named:
            make_sketch(self.sketch, 0, 1)  # refuses unknown names before any work
        elif self.n_init > 1 or self.n_exact == "auto":
            raise ValueError(
                f"n_init={self.n_init} and n_exact={self.n_exact!r} were given with a sketch of your own; several can "
                "only be drawn, and a number of directions only be chosen, where the sketch is named."
            )
        if isinstance(self.n_components, str):
            lawful = [name for name, law in SKETCHES.items() if law.distance_law is not None]
            if not named or self.sketch not in lawful:
                raise ValueError(
                    f"n_components='auto' follows from the law of the sketch, which only {lawful} have; give a number "
                    "with other sketches."
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

    def _resolve_components(self, n_samples: int) -> int:
        if not isinstance(self.n_components, str):
            return int(self.n_components)
        pairs_of = n_samples if self.simultaneous else None
        return components_for(self.distance_error, pairs_of) + (0 if self.n_exact == "auto" else int(self.n_exact))

    def _n_embedded(self, n_samples: int) -> int:
        return self._resolve_components(n_samples)

    def _embed(self, kernel: HeatKernel, power: float) -> dict[str, Any]:
        k, seed = self._resolve_components(kernel.shape[0]), resolve_seed(self.random_state)
        exact = self._directions(kernel, k, power, seed)
        if self.n_init == 1:
            return self._draw(kernel, exact, k, power, seed)
        measure = distortion_measure(kernel, power)
        drawn = (self._draw(kernel, exact, k, power, (seed + n * _NEXT_SEED) % 2**64) for n in range(self.n_init))
        return min(drawn, key=lambda fitted: measure(fitted["embedding_"]).log)

    def _directions(self, kernel: HeatKernel, k: int, power: float, seed: int) -> FloatArray | None:
        """Directions that are not sketched, or None."""
        if self.n_exact == "auto":
            exact = best_split(kernel, k, power, seed).directions
        else:
            exact = leading_directions(kernel, int(self.n_exact), power) if self.n_exact else np.empty((0, 0))
        return exact if exact.shape[1] else None

    def _draw(self, kernel: HeatKernel, exact: FloatArray | None, k: int, power: float, seed: int) -> dict[str, Any]:
        n, r = kernel.shape[0], 0 if exact is None else exact.shape[1]
        named = isinstance(self.sketch, str)
        sketch = make_sketch(self.sketch if named else kernel.collect(self.sketch), seed, n)
        M = _sketched_block(kernel, sketch, exact, 0, k - r) / np.sqrt(k - r)
        keep = self.trivial == "keep" or (self.trivial == "auto" and not kernel.trivial_is_constant)
        Z = coefficients(kernel, _joined(exact, M), power, trivial=keep)
        Y = self._place(kernel, Z, power)
        if keep and kernel.trivial_is_constant:
            _warn_drowned(Y)
        return {
            "_coefficients": kernel.collect(Z),
            "embedding_": Y,
            "_exact": exact,
            "_keeps_trivial": keep,
            "_n_drawn": int(self.n_init),
            "n_exact_": r,
            "sketch_": sketch,
            "seed_": seed,
            "n_components_": k,
        }

    @property
    def _n_sketched(self) -> int:
        """Number of sketched components."""
        return int(self.n_components_ - self.n_exact_)

    def _at_powers(self, powers: list[float]) -> list[FloatArray]:
        kernel, m = self.kernel_, self._n_sketched
        M = _sketched_block(kernel, self.sketch_, self._exact, 0, m) / np.sqrt(m)
        blocks = diffuse(kernel, _joined(self._exact, M), powers, trivial=self._keeps_trivial)
        return [kernel.weigh_rows(block) for block in blocks]

    def _most_components(self) -> int:
        return max(self.n_components_, _MOST_MEASURED)

    def _add(self, n: int) -> None:
        # More columns of the same sketch: the result is that of a fit with so many from the start.
        kernel, m, r = self.kernel_, self._n_sketched, self.n_exact_
        M = _sketched_block(kernel, self.sketch_, self._exact, m, n) / np.sqrt(m + n)
        new = kernel.collect(coefficients(kernel, M, self.power_, trivial=self._keeps_trivial))
        shrink = np.ones(self.n_components_)
        shrink[r:] = np.sqrt(m / (m + n))
        new_rows = self._place(kernel, new, self.power_).astype(self.embedding_.dtype, copy=False)
        concat = array_namespace(new).concat
        self._coefficients = concat([self._coefficients * shrink.astype(new.dtype), new], axis=1)
        self.embedding_ = concat([self.embedding_ * shrink.astype(new_rows.dtype), new_rows], axis=1)
        self.n_components_ += n

    def _add_until(self, wanted: float) -> float:
        if not self._lawful:
            return super()._add_until(wanted)
        pairs_of = self.embedding_.shape[0] if self.simultaneous else None
        while True:
            shares, m = self._remainder_shares(), self._n_sketched
            needed = columns_for(wanted, shares, pairs_of)
            if needed <= m:
                return error_of(m, shares, pairs_of)
            # Beside exact directions the shares are themselves estimates, which more columns sharpen.
            more = (min(needed, 2 * m) if self.n_exact_ else needed) - m
            self._require_memory(more)
            self._add(more)

    def _remainder_shares(self) -> FloatArray:
        """Shares of the sketched part in squared distances, of random pairs."""
        if not self.n_exact_:
            return np.ones(1)
        pairs = np.random.default_rng(self.seed_).integers(0, self.embedding_.shape[0], (_SHARE_PAIRS, 2))
        exact, sketched = (
            np.square(embedded_distances(part, pairs))
            for part in (self.embedding_[:, : self.n_exact_], self.embedding_[:, self.n_exact_ :])
        )
        apart = exact + sketched > 0
        shares: FloatArray = sketched[apart] / (exact + sketched)[apart]
        return shares

    @property
    def _lawful(self) -> bool:
        """Whether distances follow the law of a sketch: not if it has none, nor if it was picked from several."""
        return self.sketch_.distance_law is not None and self._n_drawn == 1

    def _interval(self, pairs: ArrayLike | None, level: float) -> tuple[FloatArray, FloatArray]:
        if not self._lawful:
            return super()._interval(pairs, level)
        return sketch_interval(self._Y, pairs, level, n_exact=self.n_exact_, kernel=self.kernel_, power=self.power_)

    @property
    def _measures_trivial(self) -> bool:
        return self._keeps_trivial or self.kernel_.trivial_is_constant


def _sketched_block(kernel: HeatKernel, sketch: Sketch, exact: Any, first: int, count: int) -> Any:
    """Columns of the sketch, without their part in the exact directions, (N, count), where the kernel computes."""
    M = kernel.sketched(sketch, count, first_column=first)
    if exact is None:
        return M
    Q = asarray_like(exact, M, np.float64)
    return M - Q @ (Q.T @ M)


def _joined(exact: Any, M: Any) -> Any:
    """The exact directions, if any, followed by the sketch."""
    return M if exact is None else array_namespace(M).concat([asarray_like(exact, M, np.float64), M], axis=1)


def _warn_drowned(Y: Any) -> None:
    """Warn if a constant that was kept leaves few digits to the differences between points."""
    xp = array_namespace(Y)
    ranges = to_numpy(xp.max(Y, axis=0) - xp.min(Y, axis=0))
    if ranges.max() < _DROWNED * float(np.finfo(ranges.dtype).eps) * magnitude(Y):
        warnings.warn(
            "the trivial mode, a constant, is kept and so much larger than the differences between points that few of "
            "their digits are left; use trivial='auto', which changes no distance.",
            UserWarning,
            stacklevel=2,
        )
