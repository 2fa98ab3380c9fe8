"""HeatSketch: the heat kernel seen through the matrix that distorts diffusion distances least."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._utils.array import to_numpy
from .._utils.registry import computing
from .._utils.typing import FloatArray, IntArray, RandomState
from ..analysis.distances import diffusion_distances
from ..analysis.distortion import ALL_PAIRS, kernel_distortion
from ..analysis.power import ChosenPower
from ..kernel.operator import HeatKernel
from ..kernel.options import check_choice, check_count, check_params, is_number
from ..linalg.diffusion import require_range
from ..linalg.sketch import resolve_seed, sample
from ..optimize.features import WideSketch, default_width, wide_sketch
from ..optimize.objectives import OBJECTIVES
from ..optimize.pairs import AllPairs, FoundPairs, PairSource
from ..optimize.solver import Plan, Start, optimize
from ..optimize.starts import DEFAULT_STARTS, STARTS, make_start, nearest_start
from ._base import HeatEmbedding, refuse_collapse

_SOLVER_PARAMS = ("n_rounds", "regularization", "width")
# Rounds where all pairs are looked at, and where the worst must be searched for.
_ROUNDS = 14, 28
# Components up to which more are optimised for a wanted error: beyond, a random sketch does as well.
_MOST_COMPONENTS = 64
# Points of a data set on a cluster whose features are brought to this process, for pairs to be looked for among them.
_SEEN = 20_000


class HeatSketch(HeatEmbedding):
    r"""Embedding by the sketch of the heat kernel that distorts diffusion distances least, ``Y = A^t M``.

    Diffusion maps take the leading eigenvectors for M and lose what they leave out; a Gaussian process embedding takes
    a random M and pays for chance. Here M is chosen: among the combinations ``M = V W`` of the columns of a wide
    sketch, the one whose embedding has the smallest distortion against the diffusion distance, over pairs of points.
    The worst pairs are looked for again and again while W is optimised, from several starts, diffusion maps among
    them. The result is linear in the kernel like the others: new points are placed by their own kernel rows.

    On a cluster (a Dask array as X) pairs are looked for among 20,000 points, all or a random part of them, whose rows
    of the wide sketch are brought to the client; what is found there is then applied to all points on the cluster.

    Parameters
    ----------
    n_components : int, default=2
        k.
    power : float or {"auto", "paths", "entropy"}, default=8
        Diffusion time t: any positive number, whole or not, or the rule that chooses a whole one
        (:mod:`heatsketch.analysis.power`): "paths" the time at which diffusion distances are closest to shortest paths
        between the points, "entropy" by the von Neumann entropy of the kernel; "auto" is "paths", or "entropy" for a
        precomputed affinity.
    bandwidth : float or {"auto", "median", "neighbor", "slope", "self-tuning"}, default="auto"
        Epsilon in ``exp(-|x - y|^2 / epsilon)``, or the rule that chooses it (:mod:`heatsketch.kernel.bandwidth`).
        "auto" is "neighbor"; with a power by "paths" and every pair in use, both are chosen together.
    n_neighbors : int, None or "auto", default="auto"
        None uses every pair; an integer keeps the pairs within the larger of their two k-th neighbour radii;
        "auto" uses every pair up to 10,000 points, and beyond while that takes seconds, and 32 neighbours for more;
        ``kernel_.affinity.description`` says what was chosen.
    normalization : {"bistochastic", "symmetric", "stochastic", "bistochastic-weighted"}, default="bistochastic"
        See :mod:`heatsketch.kernel.normalize`.
    alpha : float, default=1.0
        Density exponent of all but plain "bistochastic".
    affinity : {"gaussian", "precomputed"}, default="gaussian"
        "precomputed": X is a symmetric non-negative matrix, dense or sparse, or a networkx or igraph graph.
    metric : str or callable, default="euclidean"
        A metric of :func:`sklearn.metrics.pairwise_distances`, or "precomputed": X holds distances.
    metric_params : dict or None, default=None
        Further parameters of the metric, such as ``{"p": 3}`` for "minkowski".
    objective : {"bilipschitz", "log-stress"}, default="bilipschitz"
        "bilipschitz" minimises ``log L``, the logarithm of the largest over the smallest ratio of embedded to diffusion
        distance: no pair is far off. "log-stress" minimises the root mean square error of log distances: typical pairs
        are as close as can be, and a few may be far off.
    init : str, sequence of str, or array of shape (n_samples, n_components), default="auto"
        Where to start: "spectral" (diffusion maps), "random" (a Gaussian process embedding), "deflated" (half of each),
        or several of these, of which the best after the opening rounds goes on; a name that is repeated starts from
        other random numbers. "auto" takes one of each. An array, or a Dask array, is an embedding of your own, whose
        nearest sketch is taken.
    solver_params : dict or None, default=None
        Further options of the optimisation, for experts; any of

        - "width" : int, columns of the wide sketch, at least `n_components` (default 512 up to 2000 points and 256 for
          more): half of them leading directions of the kernel, half a random sketch of the remainder. Up to 2000
          points, if the kernel has no more nontrivial eigenvectors than that, all of them are taken instead;
        - "n_rounds" : int, rounds of optimisation, before each of which the worst pairs are searched (default 14 up to
          2000 points, 28 for more);
        - "regularization" : float, default 0.1, weight of a penalty on entries of M that cancel on the training points,
          and may not on others (:class:`heatsketch.optimize.solver.Plan`).
    device : {"auto", "cpu", "cuda", "cuda:1", "torch-cpu"}, default="auto"
        NumPy on the CPU, or PyTorch on a GPU ("torch-cpu": on the CPU). "auto" takes a GPU where there is one and the
        work is worth it, or where X is a tensor on it.
    random_state : int, RandomState, Generator or None, default=None
        An integer gives the same embedding on every call. (Where BLAS runs on another number of threads, the rounding
        of the kernel may lead the optimisation to another embedding, about as good.)
    verbose : bool, default=False
        Whether to show progress, and to say what was chosen, on standard error.
    kernel_params : dict or None, default=None
        Further options of the kernel, for experts; any of

        - "bandwidth_neighbor" : int, the k of the bandwidth rules "neighbor" (default 10) and "self-tuning" (7);
        - "cutoff" : float, leaves out pairs whose affinity is below this, such as 1e-6: the kernel is sparse, and
          exact to this tolerance;
        - "diagonal" : {"auto", "keep", "zero"}; "zero" sets the affinity of points with themselves to zero, which
          withstands heteroskedastic noise; "auto" keeps it, and completes self-loops that a precomputed affinity lacks;
        - "precision" : {"auto", "halves", "mixed", "split", "float32"}, how a GPU forms the exponents of a float32
          kernel of all pairs (:mod:`heatsketch.backends.torch.gaussian`);
        - "tol" : float, default 1e-8, largest deviation of the bistochastic kernel's row sums from 1 (not below 7.6e-6
          for float32);
        - "max_iter" : int, default 1000, most products spent on the bistochastic scaling.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components), or a tensor where X is one
        Along its principal axes, scaled so that the median pair has its diffusion distance.
    distortion_ : Distortion
        Measured against exact diffusion distances, on all pairs up to 2000 points. For more it is measured on random
        pairs and on the worst that are found, and L is a lower bound.
    history_ : list of Round
        What was measured in each round: ``start``, ``number``, ``distortion``, ``n_pairs``, ``seconds``. Beyond 2000
        points it is measured against the distances of the wide sketch.
    init_ : str
        The start that won.
    width_ : int
        Columns of the wide sketch.
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
    seed_ : int
        Seed that repeats the embedding.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        When X has string column names.
    sample_names_ : ndarray of shape (n_samples,)
        Nodes of a graph, or the index of a pandas frame; else 0, 1, 2, ...

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
        power: float | str = 8,
        bandwidth: float | str = "auto",
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
        self._refuse_auto_components()
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
        self._names()

    def _names(self) -> tuple[str, ...] | None:
        """Names of the starts, or None where an embedding is given."""
        named = [self.init] if isinstance(self.init, str) else self.init
        if isinstance(named, Sequence) and named and all(isinstance(name, str) for name in named):
            unknown = [name for name in named if name not in (*STARTS, "auto")]
            if unknown:
                raise ValueError(
                    f"init={self.init!r} was given; known are 'auto' and {tuple(STARTS)}, one or several, or an array "
                    "of shape (n_samples, n_components)."
                )
            return tuple(name for one in named for name in (DEFAULT_STARTS if one == "auto" else (one,)))
        shape, kind = np.shape(self.init), getattr(self.init, "dtype", np.dtype(float)).kind
        if len(shape) != 2 or shape[1] != self.n_components or kind not in "iuf":
            raise ValueError(
                f"init was given as {type(self.init).__name__} of shape {shape}; it must be real numbers of shape "
                f"(n_samples, {self.n_components}), or name one or several of {tuple(STARTS)}."
            )
        return None

    def _n_columns(self, n_samples: int) -> int:
        return self._width(n_samples, int(self.n_components))

    def _width(self, n_samples: int, k: int) -> int:
        """Columns of the wide sketch for k components."""
        return max(int((self.solver_params or {}).get("width", default_width(n_samples))), k)

    def _matrix(self, kernel: HeatKernel, power: float) -> Any:
        require_range(kernel, [power])
        k, self.seed_ = int(self.n_components), resolve_seed(self.random_state)
        names = self._names()
        given = None if names else self._given(kernel)
        wide = self._widen(kernel, k, power)
        seen = _at_seen(kernel, wide)
        starts = self._starts(wide, names, k) if given is None else [nearest_start(seen, given)]
        return self._optimised(kernel, (wide, seen), starts, power)

    def _matrix_again(self) -> FloatArray:
        return self._M

    def _embed(self, kernel: HeatKernel, power: float, chosen: ChosenPower | None, dtype: Any) -> None:
        with computing():
            super()._embed(kernel, power, chosen, dtype)
            self.distortion_ = kernel_distortion(self._Y, kernel, power)

    def _given(self, kernel: HeatKernel) -> FloatArray:
        """The embedding to start from, at the points that are seen."""
        init = kernel.collect(self.init)
        n, numbers = kernel.shape[0], _seen(kernel)
        matches = len(init) == n
        given = init if numbers is None or not matches else init[numbers]
        given = np.asarray(given, dtype=np.float64) if matches else None
        if given is None or not np.isfinite(given).all():
            raise ValueError(
                f"init was given as an array of {len(init)} rows for {n} samples; it must have a row of "
                "finite numbers for each sample."
            )
        if not np.ptp(given, axis=0).any():
            raise ValueError("init was given as an array of equal rows, of which no distance is left to start from.")
        return given

    def _starts(self, wide: WideSketch, names: Sequence[str] | None, k: int) -> list[Start]:
        names = names or DEFAULT_STARTS
        return [make_start(name, wide, k, self.seed_, names[:at].count(name)) for at, name in enumerate(names)]

    def _widen(self, kernel: HeatKernel, k: int, power: float) -> WideSketch:
        wide = wide_sketch(kernel, power, self._width(kernel.shape[0], k), self.seed_)
        refuse_collapse(wide.features, power)
        return wide

    def _optimised(
        self, kernel: HeatKernel, sketches: tuple[WideSketch, WideSketch], starts: list[Start], power: float
    ) -> Any:
        """The best M found, (N, k). Sets the attributes of the search."""
        wide, seen = sketches  # of all points, and of those among which pairs are searched
        plan = {"n_rounds": _ROUNDS[kernel.shape[0] > ALL_PAIRS]} | (self.solver_params or {})
        plan.pop("width", None)
        source = _pair_source(kernel, seen, power)
        objective = OBJECTIVES[self.objective]
        found = optimize(seen.features, source, starts, Plan(objective, **plan), self.seed_, weights=wide.weights)
        M = wide.combined(found.W, kernel.dtype)
        self._M, self.width_ = kernel.collect(M), wide.M.shape[1]
        self.init_, self.history_ = found.start, found.history
        return M

    def _most_components(self) -> int:
        return max(self.n_components_, min(_MOST_COMPONENTS, self.kernel_.shape[0] - 1))

    @computing()
    def _add(self, n: int) -> None:
        # All components are optimised anew, from the present embedding with random columns beside it and from the
        # starts that `init` names, so the present ones change.
        self._check_parameters()
        kernel, power, k, dtype = self.kernel_, self.power_, self.n_components_ + n, self.embedding_.dtype
        wide = self._widen(kernel, k, power)
        seen, numbers = _at_seen(kernel, wide), _seen(kernel)
        Y = self.embedding_ if numbers is None else to_numpy(self.embedding_[numbers])
        present = nearest_start(seen, Y.astype(np.float64)).W
        beside = make_start("random", wide, n, self.seed_, repeat=k).W  # columns that no other start has
        beside *= np.linalg.norm(present) / np.linalg.norm(beside)
        starts = [Start("present", np.column_stack([present, beside])), *self._starts(wide, self._names(), k)]
        Z = self._diffused(kernel, self._optimised(kernel, (wide, seen), starts, power), power)
        Y = self._placed(kernel, Z, power)
        self.distortion_ = kernel_distortion(Y, kernel, power)
        self._coefficients, self.n_components_ = kernel.collect(Z), k
        self.embedding_ = Y.astype(dtype, copy=False)


def _seen(kernel: HeatKernel) -> IntArray | None:
    """Samples among which pairs are looked for; None for all."""
    return None if kernel.in_memory else sample(kernel.shape[0], _SEEN)


def _at_seen(kernel: HeatKernel, wide: WideSketch) -> WideSketch:
    """The wide sketch with the features of these samples."""
    numbers = _seen(kernel)
    return wide if numbers is None else wide.at(numbers)


def _pair_source(kernel: HeatKernel, wide: WideSketch, power: float) -> PairSource:
    """All pairs with their exact distances while that is soon done; else those that a search in the sketch finds."""
    n = kernel.shape[0]
    if n > ALL_PAIRS or not kernel.in_memory:
        return FoundPairs(wide.features)
    return AllPairs(diffusion_distances(kernel, power) / wide.unit, n, wide.features)
