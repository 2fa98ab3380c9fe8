"""Side-by-side comparison of embeddings: the same kernel, time and number of components, different methods."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ._utils.array import to_numpy
from ._utils.display import html_table
from ._utils.progress import shown, track
from ._utils.threads import quiet_blas
from ._utils.typing import FloatArray, IntArray
from .analysis.distances import diffusion_distances, distances_in_sample, embedded_distances
from .analysis.distortion import ALL_PAIRS, TAIL, kernel_distortion, measure_distortion
from .estimators import ESTIMATORS, DiffusionMaps, GaussianProcessEmbedding
from .estimators._base import require_positive_weights
from .kernel.operator import HeatKernel
from .kernel.options import SHARED, check_count
from .linalg.filters import Power, in_words
from .linalg.sketch import resolve_seed
from .optimize.pairs import COINCIDENT
from .plotting import plot_embedding

__all__ = ["EmbeddingComparison", "MeasuredEmbedding", "compare_embeddings", "refit", "sample_measure"]

# From an embedding (N, k) to log L, central log L and the median relative error.
Measure: TypeAlias = Callable[[FloatArray], tuple[float, float, float]]

# Up to this many points the worst pairs are searched for; beyond, random points are measured.
_MAX_SEARCHED = 20_000
# Random points between which distances are exact.
_ANCHORS = 256


@dataclass(frozen=True)
class MeasuredEmbedding:
    """One embedding of a comparison.

    Attributes
    ----------
    name : str
        "DiffusionMaps", "GaussianProcessEmbedding" or "HeatSketch".
    model : estimator
        Fitted.
    log_distortion : float
        log L against the exact diffusion distance; a lower bound where not all pairs were measured.
    central_log_distortion : float
        The same without the hundredth of pairs at either end.
    median_error : float
        Median of ``| |y_i - y_j| / d_ij - 1 |``.
    seconds : float or None
        Time to compute the embedding, without the kernel; None for an embedding that was fitted before.
    """

    name: str
    model: Any
    log_distortion: float
    central_log_distortion: float
    median_error: float
    seconds: float | None


_TITLES = {
    "log_distortion": "log L",
    "central_log_distortion": "central log L",
    "median_error": "median error",
    "seconds": "seconds",
}


@dataclass(frozen=True)
class EmbeddingComparison:
    """Embeddings of the same points with the same kernel, time and number of components, measured in the same way.

    Attributes
    ----------
    embeddings : tuple of MeasuredEmbedding
    n_samples, n_components : int
    power : float or MultiscaleFilter
    measured : str
        Description of the pairs that were measured.

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.stretched_torus(300, random_state=0)
    >>> comparison = hs.compare_embeddings(X, 3, random_state=0)
    >>> comparison.measured
    'all 44,850 pairs'
    >>> comparison["HeatSketch"].median_error < comparison["GaussianProcessEmbedding"].median_error
    True
    >>> comparison.to_frame()["central_log_distortion"].idxmin()
    'HeatSketch'
    """

    embeddings: tuple[MeasuredEmbedding, ...]
    n_samples: int
    n_components: int
    power: Power
    measured: str

    def __getitem__(self, name: str) -> MeasuredEmbedding:
        return {one.name: one for one in self.embeddings}[name]

    def rows(self) -> list[tuple[str, ...]]:
        """The table as text, a row for each method: name, log L, central log L, median error, seconds."""
        return [
            (
                one.name,
                f"{one.log_distortion:.2f}",
                f"{one.central_log_distortion:.2f}",
                f"{one.median_error:.1%}",
                "as given" if one.seconds is None else f"{one.seconds:.2g}",
            )
            for one in self.embeddings
        ]

    @property
    def _heading(self) -> str:
        return (
            f"{self.n_samples:,} points in {self.n_components} components at power {in_words(self.power)}; measured on "
            f"{self.measured}"
        )

    def __str__(self) -> str:
        head = ("", *_TITLES.values())
        lines = [f"{name:26}" + "".join(f"{cell:>15}" for cell in cells) for name, *cells in (head, *self.rows())]
        return "\n".join([self._heading, *lines])

    def _repr_html_(self) -> str:
        return html_table(self.rows(), header=("", *_TITLES.values()), title=self._heading)

    def to_frame(self) -> Any:
        """The figures as a pandas frame, indexed by method."""
        import pandas as pd  # noqa: PLC0415

        records = [{key: getattr(one, key) for key in _TITLES} for one in self.embeddings]
        return pd.DataFrame(records, index=pd.Index([one.name for one in self.embeddings], name="method"), dtype=float)

    def plot(self, axes: Sequence[Any] | None = None, *, color: ArrayLike | None = None) -> Any:
        """Draw the first two columns of each embedding, side by side.

        Parameters
        ----------
        axes : sequence of matplotlib Axes, optional
            As many as there are methods; by default a new figure.
        color : array-like of shape (n_samples,), optional
            Numbers, or names of groups, to colour the points by, as in :func:`heatsketch.plot_embedding`.

        Returns
        -------
        axes : sequence of Axes
        """
        from ._utils.drawing import row_of_axes  # noqa: PLC0415

        axes = row_of_axes(len(self.embeddings)) if axes is None else axes
        for ax, one in zip(axes, self.embeddings, strict=True):
            dims = range(min(2, one.model.n_components_))
            plot_embedding(one.model, color, dims=tuple(dims), legend=one is self.embeddings[-1], ax=ax)
            ax.set_title(f"{one.name}\nlog L {one.log_distortion:.2f}, central {one.central_log_distortion:.2f}")
        return axes


@quiet_blas()
def compare_embeddings(
    X: Any,
    n_components: int | None = None,
    *,
    methods: Sequence[str] = tuple(ESTIMATORS),
    random_state: Any = None,
    verbose: bool = False,
    **options: Any,
) -> EmbeddingComparison:
    """Embed the same points by several methods and measure how each distorts diffusion distances.

    The kernel is built once: all methods use the same kernel and diffusion time, and differ only in the matrix that the
    kernel is multiplied by.

    Parameters
    ----------
    X : array-like, sparse matrix, graph, or fitted embedding
        Data as for `fit`; or a fitted embedding, whose kernel, time and seed are used by all methods. If it has the
        wanted number of components, it is not fitted again for its own method.
    n_components : int, optional
        By default 2, or as many as the fitted embedding has.
    methods : sequence of str
        Of "DiffusionMaps", "GaussianProcessEmbedding" and "HeatSketch"; by default all.
    random_state : int, RandomState, Generator or None
        Seed of the random sketches. A fitted embedding has its own.
    verbose : bool
        Whether to show progress on standard error.
    **options
        `power` and options of the kernel as estimators have them, such as `bandwidth`,
        `n_neighbors` or `kernel_params`; none for a fitted embedding.

    Returns
    -------
    comparison : EmbeddingComparison
        ``print`` shows a table, ``.plot()`` the pictures, ``.to_frame()`` gives a pandas frame.

    Notes
    -----
    Up to 2000 points all pairs are measured. Up to 20,000 the worst pairs are searched for, and log L is a lower bound;
    beyond, all pairs of at most 256 random points are measured.

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.stretched_torus(300, random_state=0)
    >>> comparison = hs.compare_embeddings(X, 3, power=10, bandwidth=0.3, random_state=0)
    >>> [one.name for one in comparison.embeddings]
    ['DiffusionMaps', 'GaussianProcessEmbedding', 'HeatSketch']
    >>> comparison["HeatSketch"].median_error < comparison["DiffusionMaps"].median_error
    True
    """
    if isinstance(methods, str) or not len(methods) or any(name not in ESTIMATORS for name in methods):
        raise ValueError(f"methods={methods!r} were given; give one or more of {tuple(ESTIMATORS)}, as a list.")
    if n_components is not None:
        check_count(n_components, "n_components")
    model = _fitted(X, n_components, random_state, verbose, options)
    require_positive_weights(model, "compare_embeddings()")
    k = model.n_components_ if n_components is None else n_components
    found = []
    with shown(verbose):
        measure, measured = _distance_measure(model.kernel_, model.power_)
        for name in track(methods, "embedding", len(methods)):
            other, seconds = model, None
            if model is not X or type(model) is not ESTIMATORS[name] or k != model.n_components_:
                start = time.perf_counter()
                other = refit(model, ESTIMATORS[name], k)
                seconds = time.perf_counter() - start
            embedding = other.kernel_.collect(other.embedding_)
            found.append(MeasuredEmbedding(name, other, *measure(embedding), seconds))
    return EmbeddingComparison(tuple(found), model.kernel_.shape[0], k, model.power_, measured)


def _fitted(X: Any, n_components: int | None, random_state: Any, verbose: bool, options: dict[str, Any]) -> Any:
    """The embedding whose kernel, power and seed are shared."""
    if isinstance(X, tuple(ESTIMATORS.values())):
        check_is_fitted(X)
        if options or random_state is not None:
            given = [*options, *(["random_state"] if random_state is not None else [])]
            raise ValueError(
                f"{given} were given with a fitted {type(X).__name__}, which has its own kernel and seed; leave them "
                "out, or give the data instead."
            )
        return X
    k = 2 if n_components is None else n_components
    return GaussianProcessEmbedding(k, random_state=resolve_seed(random_state), verbose=verbose, **options).fit(X)


def refit(model: Any, method: Any, n_components: int, *, kernel: HeatKernel | None = None, **parameters: Any) -> Any:
    """Fit an estimator of another class, or with other components, to the kernel and the power of a fitted one.

    `kernel` is the same one in another precision, if given.
    """
    shared = {name: getattr(model, name) for name in SHARED}
    seeded = {} if issubclass(method, DiffusionMaps) else {"random_state": getattr(model, "seed_", 0)}
    if type(model) is method:
        parameters = _own_parameters(model, n_components) | parameters
    other = method(n_components, power=model.power_, **shared | seeded | parameters)
    kernel = model.kernel_ if kernel is None else kernel
    if type(model) is method:
        other._labels = model._labels
    other._embed(kernel, model.power_, to_numpy(model.embedding_[:1]).dtype)
    for name in ("n_features_in_", "feature_names_in_", "_sample_names"):
        if hasattr(model, name):
            setattr(other, name, getattr(model, name))
    return other


def _own_parameters(model: Any, n_components: int) -> dict[str, Any]:
    """Parameters that only this class of estimator has, if they suit another number of components."""
    shared = {*SHARED, "n_components", "power", "random_state", "verbose", "distance_error", "n_exact"}
    # Arrays have a column for each component.
    found = {name: one for name, one in model.get_params(deep=False).items() if name not in shared and np.ndim(one) < 2}
    if isinstance(model, GaussianProcessEmbedding) and model.n_exact_ < n_components:
        found["n_exact"] = model.n_exact_
    return found


def _distance_measure(kernel: HeatKernel, power: Power) -> tuple[Measure, str]:
    """How embeddings of a kernel are measured at one power, and on which pairs."""
    n = kernel.shape[0]
    if n <= ALL_PAIRS:
        anchors: IntArray = np.arange(n)
        d = diffusion_distances(kernel, power)
        measured = f"all {len(d):,} pairs"
    else:
        anchors, [d] = distances_in_sample(kernel, [power], _ANCHORS)
        measured = f"all pairs of {len(anchors)} random points"
    in_sample = sample_measure(anchors, d)
    if not ALL_PAIRS < n <= _MAX_SEARCHED:
        return in_sample, measured

    def measure(Y: FloatArray) -> tuple[float, float, float]:
        log, central, error = in_sample(Y)
        return max(log, kernel_distortion(Y, kernel, power, quantiles=()).log), central, error

    return measure, f"{measured}, and for log L on the worst pairs that a search finds"


def sample_measure(points: IntArray, d: FloatArray) -> Measure:
    """How embeddings are measured between some points, whose diffusion distances are d, condensed."""
    apart = d > COINCIDENT * d.max()

    def measure(Y: FloatArray) -> tuple[float, float, float]:
        rows = to_numpy(Y[points])
        found = measure_distortion(rows, d, quantiles=(TAIL,))
        errors = np.abs(embedded_distances(rows, None)[apart] / d[apart] - 1.0)
        return found.log, float(np.log(found.central[TAIL])), float(np.median(errors))

    return measure
