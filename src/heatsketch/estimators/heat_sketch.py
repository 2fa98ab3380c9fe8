"""HeatSketch: the embedding of the heat kernel that keeps neighbours and distances best."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_array

from .._utils.array import asarray_like, to_numpy
from .._utils.display import in_short
from .._utils.typing import FloatArray, IntArray, RandomState
from ..analysis.distances import diffusion_distances
from ..analysis.distortion import ALL_PAIRS
from ..kernel.cost import Work
from ..kernel.operator import HeatKernel
from ..kernel.options import check_choice, is_number
from ..kernel.plan import check_components, wide_columns, wide_work, work_of
from ..layout.descent import Found, Mixture, first_layout, minimise, oriented
from ..layout.labels import agreeing, class_labels, known_classes
from ..layout.placement import Placement
from ..layout.similarities import Similarities, in_memory, similarities_of
from ..linalg.diffusion import diffuse, powers_of_sketch, require_range
from ..linalg.filters import MultiscaleFilter, Power
from ..linalg.sketch import resolve_seed, sample
from ..optimize.features import WideSketch, wide_sketch
from ..optimize.pairs import AllPairs, FoundPairs, PairSource
from ..optimize.solver import Start, optimize
from ..optimize.starts import STARTS, make_start, nearest_projection
from ._base import HeatEmbedding, check_spread
from ._extend import Near

# Rounds for "bilipschitz" if all pairs are used, and if the worst pairs must be searched.
_ROUNDS = 14, 28
# Samples of a data set on a cluster that are optimised, in this process.
_SEEN = 20_000
OBJECTIVES = ("mixed", "neighbors", "log-stress", "bilipschitz")


class HeatSketch(HeatEmbedding):
    r"""Neighbour embedding of the heat kernel that also keeps its distances.

    By default it minimises ``w KL(P || Q) + (1 - w) Var(log(|y_i - y_j| / d_ij))`` over all embeddings Y: the first
    term keeps neighbours, with P the heat kernel itself, the second keeps diffusion distances at all scales
    (:mod:`heatsketch.layout.descent`). If each point has a scale of its own, as by default, Y is dense where the data
    are. Any Y is a sketch of an invertible kernel, ``Y = h(A) M`` with ``M = h(A)^-1 Y``. A new point takes the place
    that is best for it while all others stay; a fitted point keeps its own.

    On a cluster (X is a Dask array) at most 20,000 points are optimised, on the client; the workers place all others
    among them.

    Parameters
    ----------
    n_components : int, default=2
        k: 2 or 3 for a picture, about 10 for clusters and for features of a model.
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
    objective : {"mixed", "neighbors", "log-stress", "bilipschitz"}, default="mixed"
        What the embedding should keep: neighbours and distances ("mixed"), neighbours alone ("neighbors"), distances
        alone, by the variance of their log ratios ("log-stress"), or the worst distance ("bilipschitz"), by ``log L``,
        the logarithm of the largest over the smallest ratio of embedded to diffusion distance. "neighbors" and
        "log-stress" are "mixed" with a `neighbor_weight` of 1 and 0.
    neighbor_weight : float in [0, 1], default=0.7
        Weight of neighbours with objective "mixed": 0 keeps distances alone, 1 neighbours alone.
    use_labels : bool, default=False
        If True, ``fit(X, y)`` separates the classes in y, too: integers, with -1 for labels that are unknown
        (:mod:`heatsketch.layout.labels`). The labels then enter the embedding, so that even random classes may come
        out apart. Do not evaluate a prediction by labels that the fit has seen (target leakage); within a
        cross-validation, fit to the training labels only. If False, y is ignored.
    init : array of shape (n_samples, n_components) or None, default=None
        Embedding to start from, such as that of earlier data; by default the leading directions of the kernel.
    device : {"auto", "cpu", "cuda", "cuda:1", "torch-cpu"}, default="auto"
        NumPy on the CPU, or PyTorch. "auto" uses a GPU if there is one and the work is large enough.
    random_state : int, RandomState, Generator or None, default=None
        An integer gives the same embedding on every call.
    verbose : bool, default=False
        Show progress, and what was chosen, on standard error.
    kernel_params : dict or None, default=None
        Expert options of the kernel: "bandwidth_neighbor", "cutoff", "diagonal", "max_iter", "precision" and "tol", as
        in :func:`heatsketch.heat_kernel`.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components), or a tensor if X is one
        Along its principal axes for one or two components, with equal variances on all axes for more; scaled so that
        the median pair has its diffusion distance. Points that are given several times count once for this.
    n_components_ : int
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
    loss_ : float
        The objective at the end; with "bilipschitz" log L of the pairs examined.
    n_steps_ : int
        Steps taken; with "bilipschitz" rounds.
    n_iter_ : int
        Products with the affinity spent on the normalisation.
    scaling_residual_ : float
        Measured ``max |row sum - 1|``, for the bistochastic normalisations.
    seed_ : int
        Seed that reproduces the embedding.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If X has string column names.
    sample_names_ : ndarray of shape (n_samples,)
        Nodes of a graph, the index of a pandas frame, or 0, 1, 2, ...

    See Also
    --------
    GaussianProcessEmbedding : The paper's method, with error bars.
    DiffusionMaps : Embedding by the leading eigenvectors of the same kernel.

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.stretched_torus(500, random_state=0)
    >>> options = {"n_components": 4, "power": 10, "bandwidth": 0.3}
    >>> ours = hs.HeatSketch(**options, objective="bilipschitz", random_state=0).fit(X)
    >>> maps = hs.DiffusionMaps(**options).fit(X)
    >>> bool(ours.distortion().log < 0.4 * maps.distortion().log)
    True
    """

    _REFERENCE_COLUMNS = 64

    _M: FloatArray  # of "bilipschitz"
    _layout: Placement  # of all others
    _unit: float | None = None  # of the layout, in which similarities fall to a half at distance 1
    _repelled: bool  # whether neighbours have a weight

    n_components: int
    seed_: int

    def __init__(
        self,
        n_components: int = 2,
        *,
        power: float | str | MultiscaleFilter = "auto",
        bandwidth: float | str | FloatArray = "auto",
        n_neighbors: int | str | None = "auto",
        normalization: str = "bistochastic",
        alpha: float = 1.0,
        affinity: str = "gaussian",
        metric: str | Callable[..., float] = "euclidean",
        metric_params: dict[str, Any] | None = None,
        objective: str = "mixed",
        neighbor_weight: float = 0.7,
        use_labels: bool = False,
        init: ArrayLike | None = None,
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
        self.objective = objective
        self.neighbor_weight = neighbor_weight
        self.use_labels = use_labels
        self.init = init
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.kernel_params = kernel_params

    def _check_parameters(self) -> None:
        self._require_component_count()
        check_choice(self.objective, "objective", OBJECTIVES)
        if not is_number(self.neighbor_weight) or not 0 <= self.neighbor_weight <= 1:
            raise ValueError(
                f"neighbor_weight={self.neighbor_weight!r} was given; it must be a number between 0 (distances) and 1 "
                "(neighbours)."
            )
        if not isinstance(self.use_labels, (bool, np.bool_)):
            raise ValueError(f"use_labels={self.use_labels!r} was given; it must be True or False.")
        if self.use_labels and (self.objective == "bilipschitz" or not self._weight):
            mixed = self.objective == "mixed"
            option = f"neighbor_weight={self.neighbor_weight!r}" if mixed else f"objective={self.objective!r}"
            raise ValueError(
                f"use_labels=True was given with {option}, which keeps distances only; use objective='mixed' with a "
                "positive neighbor_weight, or objective='neighbors'."
            )
        if self.init is not None and np.shape(self.init)[1:] != (self.n_components,):
            raise ValueError(
                f"init={in_short(self.init)} was given; it must be None or an embedding, an array of shape (n_samples, "
                f"{self.n_components})."
            )

    def _set_labels(self, y: Any, n_samples: int | None) -> None:
        self._labels = None
        if not self.use_labels:
            return
        if n_samples is None:
            raise ValueError(
                "use_labels=True was given for data on a cluster; fit to a part of the data in memory, or set "
                "use_labels=False."
            )
        self._labels = class_labels(y, n_samples, slice(None) if self._positive is None else self._positive)

    @property
    def _weight(self) -> float:
        """Weight of neighbours in the mixture."""
        return {"neighbors": 1.0, "log-stress": 0.0}.get(self.objective, float(self.neighbor_weight))

    def _work(self, n_samples: int) -> Work:
        k = int(self.n_components)
        check_components("heatsketch", n_samples, k)
        if self.objective == "bilipschitz":
            return wide_work(n_samples, k)
        return work_of("heatsketch", n_samples, self.power, k)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = bool(self.use_labels)
        return tags

    def _arranged(self, kernel: HeatKernel, power: Power, near: Near | None = None) -> Any:
        if near is None:
            self.seed_ = resolve_seed(self.random_state)
        if self.objective == "bilipschitz":
            self._unit = None
            return super()._arranged(kernel, power, near)
        if not kernel.in_memory:
            return self._laid_out_on_cluster(kernel, int(self.n_components))
        if near is None:
            return self._laid_out(kernel, power, int(self.n_components), self._given(kernel))
        start = None if self._unit is None or not near.is_start else self._start(near.points) / self._unit
        return self._laid_out(kernel, power, near.embedding.shape[1], start, fresh=start is None, near=near)

    def _laid_out(
        self,
        kernel: HeatKernel,
        power: Power,
        k: int,
        start: FloatArray | None = None,
        *,
        fresh: bool = True,
        near: Near | None = None,
    ) -> FloatArray:
        """The best layout found in k dimensions, (N, k), from a start of all samples or from leading directions.

        A start that is not fresh is in the unit of the layout.
        """
        require_range(kernel, [power])
        similarities = similarities_of(kernel, power, k, weight=self._weight)
        check_spread(similarities.features, power)
        if self._labels is not None:
            known = known_classes(self._labels, similarities.places, len(similarities.scales))
            similarities = replace(similarities, graph=agreeing(in_memory(similarities.graph), known))
        if start is None:
            normals = np.random.default_rng(self.seed_).normal(size=(kernel.shape[0], k))
            first = first_layout(similarities.features, k, normals[similarities.samples])
        else:
            start = start[similarities.samples]
            first = asarray_like(start - start.mean(axis=0), similarities.features, np.float32)
        found = minimise(Mixture(similarities, self._weight, k, self.seed_), first, fresh=fresh)
        self._tell(f"objective {found.loss:.4g} after {found.n_steps} steps")
        return self._set_layout(
            kernel, similarities, oriented(found, similarities.features, similarities.samples), near
        )

    def _take(self, kernel: HeatKernel, power: Power, similarities: Similarities, found: Found) -> None:
        """Become a fit to a kernel whose layout was found together with others."""
        self.seed_ = resolve_seed(self.random_state)
        Y = self._set_layout(kernel, similarities, found)
        self._set_kernel(kernel)
        self.power_ = power
        self._set_embedding(Y, kernel.dtype)

    def _set_layout(
        self, kernel: HeatKernel, similarities: Similarities, found: Found, near: Near | None = None
    ) -> FloatArray:
        """Y of all samples, (N, k), near another one if given; keeps what places new points in it."""
        unit = found.unit * similarities.unit
        Y: FloatArray = (unit * found.Y.astype(np.float64))[similarities.places]
        Y = Y if near is None else Y @ near.rotation(Y)
        self.loss_, self.n_steps_, self._unit, self._repelled = found.loss, found.n_steps, unit, self._weight > 0
        self._layout = Placement(kernel, Y, unit, self._repelled)
        return Y

    def _laid_out_on_cluster(self, kernel: Any, k: int) -> Any:
        """A layout of some samples in this process, and the others placed in it by the workers, (N, k)."""
        samples, masses = sample(kernel.shape[0], _SEEN), kernel.scaling.masses
        options = {
            "n_components": k,
            "random_state": self.seed_,
            "init": None if self.init is None else self._given(kernel),
        }
        if np.ndim(self.bandwidth):
            options["bandwidth"] = np.asarray(self.bandwidth)[samples]
        inner = clone(self).set_params(**options)
        inner.fit(kernel.points_at(samples), sample_weight=None if masses is None else to_numpy(masses[samples]))
        self.loss_, self.n_steps_, self._unit, self._repelled = (
            inner.loss_,
            inner.n_steps_,
            inner._unit,
            inner._repelled,
        )
        self._layout = inner._layout
        return kernel.placed_by(self._placement(), self._layout.embedding)

    def _placement(self) -> Callable[..., FloatArray]:
        if self._unit is None:
            return super()._placement()
        if "_layout" not in self.__dict__:  # of a loaded model
            self._layout = Placement(self.kernel_, self._Y, self._unit, self._repelled)
        return self._layout.place

    @property
    def _places_in_memory(self) -> bool:
        return self._unit is not None or super()._places_in_memory

    @property
    def _earliest(self) -> float:
        if self._unit is None:
            return 0.0
        return 1.0 if isinstance(self.power_, MultiscaleFilter) else float(self.power_)

    def _powered_matrix(self) -> Any:
        return self._M if self._unit is None else None

    def _at_powers(self, powers: list[float]) -> list[FloatArray]:
        """Y = h(A) M at single times, ``A^t M``; a layout stays as it is at times before the earliest."""
        if self._unit is None:
            return super()._at_powers(powers)
        kernel, h, first = self.kernel_, self.power_, self._earliest
        trivial = not kernel.trivial_is_constant
        times = [max(t, first) for t in powers]
        Y = kernel.asblock(self._Y) / (1.0 if kernel.row_weight is None else kernel.row_weight[:, None])
        if isinstance(h, MultiscaleFilter):
            blocks = powers_of_sketch(kernel, Y, h, times)
        else:
            later = iter(diffuse(kernel, Y, [t - first for t in times if t > first] or [1.0], trivial=trivial))
            blocks = [next(later) if t > first else Y for t in times]
        return [kernel.weigh_rows(block) for block in blocks]

    def _matrix(self, kernel: HeatKernel, power: Power, near: Near | None = None) -> Any:
        if near is None:
            M = self._least_distorting(kernel, power, int(self.n_components), self._given(kernel))
        else:
            start = self._start(near.points) if near.is_start else None
            M = self._least_distorting(kernel, power, near.embedding.shape[1], start)
            rotation = near.rotation(self._placed(kernel, self._diffused(kernel, M, power), power))
            M = M @ asarray_like(rotation, M, kernel.dtype)
        self._M = kernel.collect(M)
        return M

    def _start(self, points: Any) -> FloatArray:
        """Where the search begins when m points are added: where they are placed, (N + m, k)."""
        return np.vstack([self._Y, self._placement()(points)])

    def _matrix_again(self) -> FloatArray:
        return self._M

    def _given(self, kernel: HeatKernel) -> FloatArray | None:
        """The embedding to start from, of the samples that are optimised, or None."""
        if self.init is None:
            return None
        init, positive, samples = kernel.collect(self.init), self._positive, _searched(kernel)
        n = kernel.shape[0] if positive is None else len(positive)
        if len(init) != n:
            raise ValueError(f"init was given as an array of {len(init)} rows for {n} samples; give one row for each.")
        init = init if positive is None else init[positive]
        given: FloatArray = check_array(init if samples is None else init[samples], dtype=np.float64, input_name="init")
        if not np.ptp(given, axis=0).any():
            raise ValueError("init was given as an array of equal rows, which has no distances to start from.")
        return given

    def _least_distorting(self, kernel: HeatKernel, power: Power, k: int, init: FloatArray | None) -> Any:
        """The projection of a wide sketch that distorts the worst pair least, as M, (N, k)."""
        wide, samples = wide_sketch(kernel, power, wide_columns(kernel.shape[0], k), self.seed_), _searched(kernel)
        check_spread(wide.features, power)
        some = wide if samples is None else wide.at(samples)
        if init is None:
            starts = [make_start(name, wide, k, self.seed_) for name in STARTS]
        else:
            starts = [Start("given", nearest_projection(some, init))]
        source, n_rounds = _pair_source(kernel, some, power), _ROUNDS[kernel.shape[0] > ALL_PAIRS]
        found = optimize(some.features, source, starts, self.seed_, weights=wide.weights, n_rounds=n_rounds)
        rounds = [one for one in found.history if one.start == found.start]
        self.loss_, self.n_steps_ = min(one.distortion for one in rounds), rounds[-1].number
        return wide.combined(found.W, kernel.dtype)

    def _add(self, n: int) -> None:  # all components are optimised again
        self._check_parameters()
        check_components("heatsketch", self.kernel_.shape[0], self.n_components_ + n)
        self._set_embedding(self._in_components(self.n_components_ + n), self._Y.dtype)

    def _in_components(self, k: int) -> FloatArray:
        """The embedding of the same kernel in k dimensions, (N, k)."""
        kernel, power = self.kernel_, self.power_
        if self._unit is not None:
            return self._laid_out(kernel, power, k) if kernel.in_memory else self._laid_out_on_cluster(kernel, k)
        M = self._least_distorting(kernel, power, k, None)
        self._M = kernel.collect(M)
        Y: FloatArray = self._multiplied(kernel, M, power)
        return Y

    def _widened(self) -> HeatSketch:
        """A copy with one more component."""
        wider = copy(self)
        wider._set_embedding(wider._in_components(self.n_components_ + 1), self._Y.dtype)
        return wider


def _searched(kernel: HeatKernel) -> IntArray | None:
    """The samples that are optimised; None for all."""
    return None if kernel.in_memory else sample(kernel.shape[0], _SEEN)


def _pair_source(kernel: HeatKernel, wide: WideSketch, power: Power) -> PairSource:
    """All pairs with exact distances for few points; otherwise the pairs that a search in the sketch finds."""
    n = kernel.shape[0]
    if n > ALL_PAIRS or not kernel.in_memory:
        return FoundPairs(wide.features)
    return AllPairs(diffusion_distances(kernel, power) / wide.unit, n, wide.features)
