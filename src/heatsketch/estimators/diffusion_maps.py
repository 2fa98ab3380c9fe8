"""Diffusion maps: the heat kernel seen through its leading eigenvectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._utils.typing import FloatArray
from ..kernel.operator import HeatKernel
from ..kernel.options import check_choice, kernel_options
from ..linalg.diffusion import require_range
from ..linalg.eigen import DENSE_LIMIT, SOLVERS, Eigenpairs, eigenpairs
from ..linalg.rounding import rounding_level
from ._base import HeatEmbedding


class DiffusionMaps(HeatEmbedding):
    r"""Embedding by the leading eigenvectors of the heat kernel, ``y_j = (lambda_l^t v_l(j))_{l = 1..k}``.

    Algorithm 3 of [1]_: the trivial coordinate is dropped. Distances in the embedding are diffusion distances cut off
    after k eigenvectors, and so never larger than those.

    Parameters
    ----------
    n_components : int, default=2
        k, at most ``n_samples - 1``.
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
        The paper's Algorithm 2 or 1; "stochastic" gives right eigenvectors of the Markov matrix, as other packages
        report them, scaled to unit variance under its stationary law [2]_; or bistochastic with weights that correct
        uneven sampling (:mod:`heatsketch.kernel.normalize`).
    alpha : float, default=1.0
        Density exponent of all but plain "bistochastic".
    affinity : {"gaussian", "precomputed"}, default="gaussian"
        "precomputed": X is a symmetric non-negative matrix, dense or sparse, or a networkx or igraph graph.
    metric : str or callable, default="euclidean"
        A metric of :func:`sklearn.metrics.pairwise_distances`, or "precomputed": X holds distances.
    metric_params : dict or None, default=None
        Further parameters of the metric, such as ``{"p": 3}`` for "minkowski".
    solver : {"auto", "dense", "lanczos", "randomized"}, default="auto"
        "dense" diagonalises the matrix; "randomized" is subspace iteration with a Chebyshev filter; "lanczos" is
        ARPACK. "auto" takes "dense" up to 2000 points, or where a fifth of all eigenvectors is wanted, and
        "randomized" otherwise.
    device : {"auto", "cpu", "cuda", "cuda:1", "torch-cpu"}, default="auto"
        NumPy on the CPU, or PyTorch on a GPU ("torch-cpu": on the CPU). "auto" takes a GPU where there is one and the
        work is worth it, or where X is a tensor on it.
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
          for float32), and residual wanted of eigenvectors;
        - "max_iter" : int, default 1000, most products spent on the bistochastic scaling, and on the eigenvectors
          (restarts, for "lanczos").

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components), or a tensor where X is one
    eigenvalues_ : ndarray of shape (n_components,)
        Nontrivial eigenvalues of the heat kernel, in decreasing order.
    eigenvectors_ : ndarray of shape (n_samples, n_components)
        Orthonormal eigenvectors of its symmetric form. Signs are fixed.
    residuals_ : ndarray of shape (n_components,)
        ``|S v - lambda v|``, measured.
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
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        When X has string column names.
    sample_names_ : ndarray of shape (n_samples,)
        Nodes of a graph, or the index of a pandas frame; else 0, 1, 2, ...

    See Also
    --------
    GaussianProcessEmbedding : The same kernel seen through a random matrix.

    References
    ----------
    .. [1] Gilbert, O'Neill. "Sketching the Heat Kernel: Using Gaussian Processes to Embed Data". arXiv:2403.07929.
    .. [2] Coifman, Lafon. "Diffusion maps". Applied and Computational Harmonic Analysis, 2006.

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.circle(300, random_state=0)
    >>> maps = hs.DiffusionMaps(n_components=2, bandwidth=0.25).fit(X)
    >>> bool(maps.distortion().log < 0.2)
    True
    """

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
        solver: str = "auto",
        device: str = "auto",
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
        self.solver = solver
        self.device = device
        self.verbose = verbose
        self.kernel_params = kernel_params

    def _check_parameters(self) -> None:
        self._refuse_auto_components()
        check_choice(self.solver, "solver", SOLVERS)

    def _matrix(self, kernel: HeatKernel, power: float) -> Any:
        require_range(kernel, [power])
        return self._keep(kernel, self._eigenpairs(kernel, int(self.n_components)))

    def _matrix_again(self) -> Any:
        return self._pairs.vectors

    def _eigenpairs(self, kernel: HeatKernel, k: int, after: Eigenpairs | None = None) -> Eigenpairs:
        options = kernel_options(self)
        return eigenpairs(kernel, k, solver=self.solver, tol=options.tol, max_iter=options.max_iter, after=after)

    def _keep(self, kernel: HeatKernel, pairs: Eigenpairs) -> Any:
        """Set the attributes of eigenpairs; return the eigenvectors."""
        self.eigenvalues_, self.residuals_ = pairs.values, pairs.residuals
        self.eigenvectors_ = kernel.hand_out(pairs.vectors)
        return pairs.vectors

    def _diffused(self, kernel: HeatKernel, M: FloatArray, power: float) -> FloatArray:
        # Powers of the kernel are powers of the eigenvalues: no products are needed.
        pairs = Eigenpairs(self.eigenvalues_, M, self.residuals_)
        Z: FloatArray = pairs.coordinates(power - 1.0, rounding_level(kernel), weight=1).astype(kernel.dtype)
        return Z

    @property
    def _pairs(self) -> Eigenpairs:
        return Eigenpairs(self.eigenvalues_, self.kernel_.collect(self.eigenvectors_), self.residuals_)

    def _at_powers(self, powers: list[float]) -> list[FloatArray]:
        kernel, pairs = self.kernel_, self._pairs
        return [kernel.weigh_rows(pairs.coordinates(t, rounding_level(kernel))) for t in powers]

    def _most_components(self) -> int:
        n = self.kernel_.shape[0]
        # Beyond a fifth of all, the whole kernel of many points would have to be diagonalised.
        most = n - (self.kernel_.trivial is not None) if n <= DENSE_LIMIT else n // 5
        return max(self.n_components_, most)

    def _add(self, n: int) -> None:
        # The next eigenvectors; the present ones stay. (Within the space of a repeated eigenvalue, they may differ from
        # those of a fit with all of them from the start.)
        kernel, power, pairs = self.kernel_, self.power_, self._pairs
        M = self._keep(kernel, pairs.join(self._eigenpairs(kernel, n, after=pairs)))
        self._coefficients = self._diffused(kernel, M, power)
        self.embedding_ = self._placed(kernel, self._coefficients, power).astype(self._Y.dtype, copy=False)
        self.n_components_ = len(self.eigenvalues_)
