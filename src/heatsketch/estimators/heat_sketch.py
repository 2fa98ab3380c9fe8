"""HeatSketch: the heat kernel seen through the matrix that distorts diffusion distances least."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from .._utils.array import to_numpy
from .._utils.display import in_short
from .._utils.typing import FloatArray, IntArray, RandomState
from ..analysis.distances import diffusion_distances
from ..analysis.distortion import ALL_PAIRS, kernel_distortion
from ..kernel.operator import HeatKernel
from ..kernel.options import check_choice, check_count, check_params, is_number
from ..linalg.diffusion import require_range
from ..linalg.filters import MultiscaleFilter, Power
from ..linalg.sketch import resolve_seed, sample
from ..optimize.features import WideSketch, default_width, wide_sketch
from ..optimize.objectives import OBJECTIVES
from ..optimize.pairs import AllPairs, FoundPairs, PairSource
from ..optimize.solver import Plan, Start, optimize
from ..optimize.starts import DEFAULT_STARTS, STARTS, make_start, nearest_projection
from ._base import HeatEmbedding, check_spread

_SOLVER_PARAMS = ("n_rounds", "regularization", "width")
# Rounds if all pairs are used, and if the worst pairs must be searched.
_ROUNDS = 14, 28
# Samples of a data set on a cluster among which pairs are searched, in this process.
_SEEN = 20_000


class HeatSketch(HeatEmbedding):
    r"""Embedding by the sketch of the heat kernel that distorts diffusion distances least, ``Y = h(A) M``.

    M is optimised: among the combinations ``M = V W`` of the columns of a wide sketch V, the one whose embedding has
    the smallest distortion against the diffusion distance. The search adds the worst pairs in each round and starts
    from diffusion maps, among others. As for the other estimators, new points are embedded by their own kernel rows.

    On a cluster (X is a Dask array) pairs are searched among at most 20,000 points, whose rows of the wide sketch are
    brought to the client; the M found is then applied to all points on the cluster.

    Parameters
    ----------
    n_components : int, default=2
        k.
    power : float, {"auto", "multiscale"} or MultiscaleFilter, default="auto"
        Which scales to keep: a diffusion time t > 0, as in the paper, or all of them at once. "auto" and "multiscale"
        stand for ``heatsketch.multiscale(kernel_)``, which needs no time to be chosen. Times that are not integers need
        a positive semidefinite kernel, such as that of all pairs with one bandwidth.
    bandwidth : float, {"auto", "self-tuning", "neighbor", "median", "slope"} or array, default="auto"
        Epsilon in ``exp(-|x - y|^2 / epsilon)``, as in the paper, or the rule that chooses it
        (:mod:`heatsketch.kernel.bandwidth`). "auto" gives each point a scale of its own ("self-tuning"). An array
        holds the squared scales of the training points, such as `bandwidth_`.
    n_neighbors : int, None or "auto", default="auto"
        Number of neighbours of each point that the kernel keeps; None keeps all pairs. "auto" keeps 15 neighbours if
        each point has a scale of its own. For a single bandwidth it keeps all pairs up to 10,000 points, and beyond
        while that takes seconds, and 32 neighbours otherwise.
    normalization : {"bistochastic", "symmetric", "stochastic", "bistochastic-weighted"}, default="bistochastic"
        The paper's Algorithm 2 or 1, the Markov matrix, or bistochastic with weights that correct uneven sampling
        (:mod:`heatsketch.kernel.normalize`).
    alpha : float, default=1.0
        Density exponent of all normalisations but "bistochastic".
    affinity : {"gaussian", "precomputed"}, default="gaussian"
        "precomputed": X is a symmetric non-negative matrix, dense or sparse, or a networkx or igraph graph.
    metric : str or callable, default="euclidean"
        A metric of :func:`sklearn.metrics.pairwise_distances`, or "precomputed": X holds distances.
    metric_params : dict or None, default=None
        Parameters of the metric, such as ``{"p": 3}`` for "minkowski".
    objective : {"bilipschitz", "log-stress"}, default="bilipschitz"
        "bilipschitz" minimises ``log L``, the logarithm of the largest over the smallest ratio of embedded to diffusion
        distance, so no pair is far off. "log-stress" minimises the root mean square error of log distances: smaller
        errors of typical pairs, larger ones of a few.
    init : str, sequence of str, or array of shape (n_samples, n_components), default="auto"
        Where to start: "spectral" (diffusion maps), "random" (a Gaussian process embedding), "deflated" (half of each),
        or several of these, of which the best after the first rounds is continued; a repeated name draws other random
        numbers. "auto" takes one of each. An array is an embedding, of which the nearest sketch is taken.
    solver_params : dict or None, default=None
        Expert options of the optimisation:

        - "width" : int, columns of the wide sketch (default 512 up to 2000 points, 256 for more): half of them leading
          directions of the kernel, half a random sketch of the remainder; all eigenvectors if there are no more;
        - "n_rounds" : int, rounds of optimisation (default 14 up to 2000 points, 28 for more);
        - "regularization" : float, default 0.1, weight of a penalty on entries of M that cancel on the training points
          and may not cancel on others (:class:`heatsketch.optimize.solver.Plan`).
    device : {"auto", "cpu", "cuda", "cuda:1", "torch-cpu"}, default="auto"
        NumPy on the CPU, or PyTorch. "auto" takes a GPU if there is one and the work is worth it.
    random_state : int, RandomState, Generator or None, default=None
        An integer gives the same embedding on every call.
    verbose : bool, default=False
        Show progress, and what was chosen, on standard error.
    kernel_params : dict or None, default=None
        Expert options of the kernel: "bandwidth_neighbor", "cutoff", "diagonal", "max_iter", "precision" and "tol", as
        in :func:`heatsketch.heat_kernel`.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components), or a tensor where X is one
        Along its principal axes, scaled so that the median pair has its diffusion distance.
    distortion_ : Distortion
        Against exact diffusion distances: of all pairs up to 2000 points, of random pairs and the worst pairs found for
        more, and L is then a lower bound.
    history_ : list of Round
        ``start``, ``number``, ``distortion``, ``n_pairs`` and ``seconds`` of each round; beyond 2000 points against
        distances of the wide sketch.
    init_ : str
        The start that was continued.
    width_ : int
        Columns of the wide sketch.
    n_components_ : int
    kernel_ : HeatKernel
        The heat kernel as an operator.
    bandwidth_ : float, ndarray of shape (n_samples,), or None
        Epsilon, or the squared scale of each point; ``bandwidth=model.bandwidth_`` repeats it. None for a precomputed
        affinity.
    intrinsic_dimension_ : float or None
        Estimated on access from the growth of neighbourhoods; None for a precomputed affinity.
    power_ : float or MultiscaleFilter
        Diffusion time, or the filter with its times and weights; ``power=model.power_`` repeats it.
    n_neighbors_ : int or None
        None if the kernel keeps all pairs, or those above a cutoff.
    n_iter_ : int
        Products with the affinity spent on the normalisation.
    scaling_residual_ : float
        Measured ``max |row sum - 1|``, for the bistochastic normalisations.
    seed_ : int
        Seed that repeats the embedding.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If X has string column names.
    sample_names_ : ndarray of shape (n_samples,)
        Nodes of a graph, the index of a pandas frame, or 0, 1, 2, ...

    See Also
    --------
    GaussianProcessEmbedding : The paper's method, with error bars.
    DiffusionMaps : The same kernel seen through its leading eigenvectors.

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.stretched_torus(500, random_state=0)
    >>> options = {"n_components": 4, "power": 10, "bandwidth": 0.3}
    >>> ours = hs.HeatSketch(**options, random_state=0).fit(X)
    >>> maps = hs.DiffusionMaps(**options).fit(X)
    >>> bool(ours.distortion_.log < 0.4 * maps.distortion().log)
    True
    """

    _M: FloatArray

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
        objective: str = "bilipschitz",
        init: str | Sequence[str] | ArrayLike = "auto",
        solver_params: dict[str, Any] | None = None,
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
        self.init = init
        self.solver_params = solver_params
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.kernel_params = kernel_params

    def _check_parameters(self) -> None:
        self._require_component_count()
        check_choice(self.objective, "objective", tuple(OBJECTIVES))
        params = check_params(self.solver_params, "solver_params", _SOLVER_PARAMS)
        for name, least in (("n_rounds", 1), ("width", int(self.n_components))):
            if name in params:
                check_count(params[name], f"solver_params[{name!r}]", f"an integer of at least {least}", least=least)
        weight = params.get("regularization", 0.0)
        if not is_number(weight) or not 0 <= weight < np.inf:
            raise ValueError(
                f"solver_params['regularization']={weight!r} was given; it must be a number of at least 0."
            )
        self._start_names()

    def _start_names(self) -> list[str] | None:
        """Names of the starts; None if an embedding is given."""
        named: Any = [self.init] if isinstance(self.init, str) else self.init
        known = ("auto", *STARTS)
        if isinstance(named, Sequence) and named and all(isinstance(one, str) and one in known for one in named):
            return [name for one in named for name in (DEFAULT_STARTS if one == "auto" else (one,))]
        if np.shape(self.init)[1:] == (self.n_components,):
            return None
        raise ValueError(
            f"init={in_short(self.init)} was given; it must be one of {known}, a sequence of these, or an array of "
            f"shape (n_samples, {self.n_components})."
        )

    def _n_columns(self, n_samples: int) -> int:
        return self._width(n_samples, int(self.n_components))

    def _width(self, n_samples: int, k: int) -> int:
        """Number of columns of the wide sketch for k components."""
        return max(int((self.solver_params or {}).get("width", default_width(n_samples))), k)

    def _matrix(self, kernel: HeatKernel, power: Power) -> Any:
        require_range(kernel, [power])
        k, self.seed_ = int(self.n_components), resolve_seed(self.random_state)
        given = self._given(kernel) if self._start_names() is None else None
        wide, searched = self._wide_sketches(kernel, k, power)
        starts = self._starts(wide, k) if given is None else [Start("given", nearest_projection(searched, given))]
        return self._optimised(kernel, wide, searched, starts, power)

    def _matrix_again(self) -> FloatArray:
        return self._M

    def _multiply(self, M: Any, dtype: Any) -> None:
        super()._multiply(M, dtype)
        self.distortion_ = kernel_distortion(self._Y, self.kernel_, self.power_)

    def _given(self, kernel: HeatKernel) -> FloatArray:
        """The embedding to start from, at the samples among which pairs are searched."""
        init, n, samples = kernel.collect(self.init), kernel.shape[0], _searched(kernel)
        if len(init) != n:
            raise ValueError(f"init was given as an array of {len(init)} rows for {n} samples; give one row for each.")
        given: FloatArray = check_array(init if samples is None else init[samples], dtype=np.float64, input_name="init")
        if not np.ptp(given, axis=0).any():
            raise ValueError("init was given as an array of equal rows, which has no distances to start from.")
        return given

    def _starts(self, wide: WideSketch, k: int) -> list[Start]:
        names = self._start_names() or DEFAULT_STARTS
        return [make_start(name, wide, k, self.seed_, names[:at].count(name)) for at, name in enumerate(names)]

    def _wide_sketches(self, kernel: HeatKernel, k: int, power: Power) -> tuple[WideSketch, WideSketch]:
        """The wide sketch of all samples, and of those among which pairs are searched."""
        wide = wide_sketch(kernel, power, self._width(kernel.shape[0], k), self.seed_)
        check_spread(wide.features, power)
        samples = _searched(kernel)
        return wide, wide if samples is None else wide.at(samples)

    def _optimised(
        self, kernel: HeatKernel, wide: WideSketch, searched: WideSketch, starts: list[Start], power: Power
    ) -> Any:
        """The best M found, (N, k). Sets the attributes of the search."""
        plan = {"n_rounds": _ROUNDS[kernel.shape[0] > ALL_PAIRS]} | (self.solver_params or {})
        plan.pop("width", None)
        source = _pair_source(kernel, searched, power)
        objective = OBJECTIVES[self.objective]
        found = optimize(searched.features, source, starts, Plan(objective, **plan), self.seed_, weights=wide.weights)
        M = wide.combined(found.W, kernel.dtype)
        self._M, self.width_ = kernel.collect(M), wide.M.shape[1]
        self.init_, self.history_ = found.start, found.history
        return M

    def _add(self, n: int) -> None:
        # Optimises all components again, from the present embedding joined with random columns and from the starts
        # that `init` names.
        self._check_parameters()
        kernel, power, k, Y = self.kernel_, self.power_, self.n_components_ + n, self._Y
        wide, searched = self._wide_sketches(kernel, k, power)
        samples = _searched(kernel)
        present = nearest_projection(searched, (Y if samples is None else to_numpy(Y[samples])).astype(np.float64))
        beside = make_start("random", wide, n, self.seed_, repeat=k).W  # columns that no other start has
        beside *= np.linalg.norm(present) / np.linalg.norm(beside)
        starts = [Start("present", np.column_stack([present, beside])), *self._starts(wide, k)]
        self._multiply(self._optimised(kernel, wide, searched, starts, power), Y.dtype)


def _searched(kernel: HeatKernel) -> IntArray | None:
    """Samples among which pairs are searched; None for all."""
    return None if kernel.in_memory else sample(kernel.shape[0], _SEEN)


def _pair_source(kernel: HeatKernel, wide: WideSketch, power: Power) -> PairSource:
    """All pairs with exact distances for few points; otherwise the pairs that a search in the sketch finds."""
    n = kernel.shape[0]
    if n > ALL_PAIRS or not kernel.in_memory:
        return FoundPairs(wide.features)
    return AllPairs(diffusion_distances(kernel, power) / wide.unit, n, wide.features)
