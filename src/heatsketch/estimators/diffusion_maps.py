"""Diffusion maps: embeddings by the leading eigenvectors of the heat kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .._utils.typing import FloatArray
from ..kernel.cost import Work
from ..kernel.operator import HeatKernel
from ..kernel.options import check_choice, kernel_options
from ..kernel.plan import work_of
from ..linalg.diffusion import require_range
from ..linalg.eigen import SOLVERS, Eigenpairs, eigenpairs
from ..linalg.filters import MultiscaleFilter, Power
from ..linalg.rounding import rounding_level
from ._base import HeatEmbedding
from ._extend import Near


class DiffusionMaps(HeatEmbedding):
    r"""Embedding by the leading eigenvectors of the heat kernel, ``y_j = (h(lambda_l) v_l(j))_{l = 1..k}``.

    With ``h(x) = x^t`` this is Algorithm 3 of [1]_, without the trivial coordinate. Distances in the embedding are
    diffusion distances truncated after k eigenvectors, so they are never larger.

    Parameters
    ----------
    n_components : int, default=2
        k, at most ``n_samples - 1``.
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
        The paper's Algorithm 2 or 1; "stochastic" gives right eigenvectors of the Markov matrix, scaled to unit
        variance under its stationary law [2]_; or bistochastic with weights that correct uneven sampling
        (:mod:`heatsketch.kernel.normalize`).
    alpha : float, default=1.0
        Density exponent of all normalisations but "bistochastic": 0 keeps the sampling density, 1 removes it.
    affinity : {"gaussian", "precomputed"}, default="gaussian"
        "precomputed": X is a symmetric non-negative matrix, dense or sparse, or a networkx or igraph graph.
    metric : str or callable, default="euclidean"
        A metric of :func:`sklearn.metrics.pairwise_distances`, or "precomputed": X holds distances.
    metric_params : dict or None, default=None
        Parameters of the metric, such as ``{"p": 3}`` for "minkowski".
    solver : {"auto", "dense", "arpack", "randomized"}, default="auto"
        "dense" diagonalises the matrix; "arpack" is SciPy's Lanczos iteration; "randomized" is subspace iteration with
        a Chebyshev filter. "auto" is "dense" for few points or more than a fifth of all eigenvectors, "arpack" for
        neighbour kernels of up to 5000 points, else "randomized".
    device : {"auto", "cpu", "cuda", "cuda:1", "torch-cpu"}, default="auto"
        NumPy on the CPU, or PyTorch. "auto" uses a GPU if there is one and the work is large enough.
    verbose : bool, default=False
        Show progress, and what was chosen, on standard error.
    kernel_params : dict or None, default=None
        Expert options of the kernel: "bandwidth_neighbor", "cutoff", "diagonal", "max_iter", "precision" and "tol", as
        in :func:`heatsketch.heat_kernel`; "max_iter" and "tol" also apply to the eigensolver.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components), or a tensor if X is one
    eigenvalues_ : ndarray of shape (n_components,)
        Nontrivial eigenvalues of the heat kernel, in decreasing order.
    eigenvectors_ : ndarray of shape (n_samples, n_components)
        Orthonormal eigenvectors of its symmetric form. Signs are fixed.
    residuals_ : ndarray of shape (n_components,)
        ``|S v - lambda v|``, measured.
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
    n_iter_ : int
        Products with the affinity spent on the normalisation.
    scaling_residual_ : float
        Measured ``max |row sum - 1|``, for the bistochastic normalisations.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If X has string column names.
    sample_names_ : ndarray of shape (n_samples,)
        Nodes of a graph, the index of a pandas frame, or 0, 1, 2, ...

    See Also
    --------
    GaussianProcessEmbedding : Embedding by a random sketch of the same kernel, with error bars.

    References
    ----------
    .. [1] Gilbert, O'Neill. "Sketching the Heat Kernel: Using Gaussian Processes to Embed Data". arXiv:2403.07929.
    .. [2] Coifman, Lafon. "Diffusion maps". Applied and Computational Harmonic Analysis, 2006.

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.circle(300, random_state=0)
    >>> maps = hs.DiffusionMaps(n_components=2, bandwidth=0.25, power=8).fit(X)
    >>> bool(maps.distortion().log < 0.2)
    True
    """

    n_components: int
    eigenvalues_: FloatArray
    residuals_: FloatArray
    eigenvectors_: Any

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
        self._require_component_count()
        check_choice(self.solver, "solver", SOLVERS)

    def _work(self, n_samples: int) -> Work:
        return work_of("diffusion-maps", n_samples, self.power, int(self.n_components))

    def _matrix(self, kernel: HeatKernel, power: Power, near: Near | None = None) -> Any:
        require_range(kernel, [power])
        if near is None:
            return self._keep(kernel, self._eigenpairs(kernel, int(self.n_components)))
        pairs = self._eigenpairs(kernel, near.embedding.shape[1])
        signs = near.signs(kernel.weigh_rows(pairs.vectors))
        return self._keep(kernel, replace(pairs, vectors=pairs.vectors * signs))

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

    def _diffused(self, kernel: HeatKernel, M: FloatArray, power: Power) -> FloatArray:
        # Functions of the kernel are functions of the eigenvalues, so no products are needed.
        pairs = Eigenpairs(self.eigenvalues_, M, self.residuals_)
        Z: FloatArray = pairs.coordinates(power, rounding_level(kernel), over_x=True).astype(kernel.dtype)
        return Z

    @property
    def _pairs(self) -> Eigenpairs:
        return Eigenpairs(self.eigenvalues_, self.kernel_.collect(self.eigenvectors_), self.residuals_)

    def _powered_matrix(self) -> None:
        return None

    def _at_powers(self, powers: list[float]) -> list[FloatArray]:
        kernel, pairs = self.kernel_, self._pairs
        return [kernel.weigh_rows(pairs.coordinates(t, rounding_level(kernel))) for t in powers]

    def _add(self, n: int) -> None:
        # Eigenvectors of a repeated eigenvalue may differ from those of a fit with all components from the start.
        kernel, pairs, dtype = self.kernel_, self._pairs, self._Y.dtype
        M = self._keep(kernel, pairs.join(self._eigenpairs(kernel, n, after=pairs)))
        self._set_embedding(self._multiplied(kernel, M, self.power_), dtype)
