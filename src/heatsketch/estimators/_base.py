"""The base class of all embeddings, which share everything but the matrix M."""

from __future__ import annotations

import sys
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial, wraps
from numbers import Integral
from typing import Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils._set_output import _get_output_config, _wrap_data_with_container
from sklearn.utils.validation import check_is_fitted, validate_data

from .._utils.array import array_namespace, to_numpy
from .._utils.display import Facts, html_table
from .._utils.extras import optional
from .._utils.progress import is_shown, say, shown
from .._utils.registry import as_given, computing, device_for, distributed_backend, find_device
from .._utils.tables import explained
from .._utils.text import duration
from .._utils.threads import quiet_blas
from .._utils.typing import FloatArray, IntArray
from .._utils.warn import warn
from ..analysis.diagnosis import Diagnosis, Subject, diagnose
from ..analysis.distances import check_level, check_pairs, embedded_distances, exact_interval
from ..analysis.distortion import Distortion, kernel_distortion, new_point_distortion
from ..analysis.geodesics import COLUMNS, geodesics_from, paths, sketched_geodesics
from ..analysis.inverse import local_weights
from ..analysis.neighborhoods import (
    NeighborSupport,
    StabilityMap,
    neighbor_support,
    repeated_embeddings,
    stability_map,
)
from ..analysis.power import power_of
from ..analysis.pseudotime import Pseudotime, kind_of, sketched_diffusion, time_from_roots
from ..analysis.reference_sketch import ReferenceSketch, reference_sketch
from ..analysis.scales import Scales, measure_scales
from ..kernel.affinity import GaussianAffinity
from ..kernel.bandwidth import slope_profile
from ..kernel.build import build_affinity, normalized
from ..kernel.cost import Work
from ..kernel.graphs import is_graph, node_names
from ..kernel.operator import HeatKernel
from ..kernel.options import (
    KernelOptions,
    check_count,
    check_masses,
    check_out,
    from_user,
    kernel_options,
    n_rows,
    sample_names,
    tidy,
)
from ..kernel.plan import Estimate, faster_way, predict
from ..linalg.diffusion import coefficients, diffuse
from ..linalg.filters import MultiscaleFilter, Power, check_power_option, check_powers, in_words
from ._extend import Near, all_masses, all_names, all_points

__all__ = ["HeatEmbedding", "check_spread", "require_positive_weights"]

E = TypeVar("E")
P = ParamSpec("P")
R = TypeVar("R")

# Points up to which intervals come from their exact distances.
_FEW_POINTS = 16
# Attributes that are not pickled: they can be computed again, or belong to a running cluster.
_NOT_PICKLED = ("_reference", "_frame_index", "_layout")


def transactional(method: Callable[Concatenate[E, P], R]) -> Callable[Concatenate[E, P], R]:
    """Leave the estimator unchanged if a method fails: it works on a copy, whose attributes are taken on success."""

    @wraps(method)
    def changed(self: E, /, *args: P.args, **kwargs: P.kwargs) -> R:
        twin: Any = object.__new__(type(self))
        twin.__dict__.update(vars(self))
        result = method(twin, *args, **kwargs)
        self.__dict__ = vars(twin)
        return self if result is twin else result  # type: ignore[return-value]

    return changed


def fitted(method: Callable[Concatenate[E, P], R]) -> Callable[Concatenate[E, P], R]:
    """Let a method require a fitted estimator, show progress if it is verbose, and keep BLAS on one thread."""

    @wraps(method)
    def checked(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        check_is_fitted(self)
        with shown(self.verbose), computing(), quiet_blas():
            return method(self, *args, **kwargs)

    return checked


class HeatEmbedding(  # type: ignore[call-arg]
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
    metaclass=ABCMeta,
    auto_wrap_output_keys=None,  # `_output` makes frames: scikit-learn does not know the nodes of a graph
):
    """An embedding ``Y = diag(w) h(S) M``; new points are embedded by their own rows of the kernel.

    S is the symmetric form of the heat kernel and w its row weight. For the normalisations of the paper w = 1 and
    ``Y = h(A) M``; a number t as power is ``h(x) = x^t``. A subclass defines M: `_check_parameters`, `_matrix`,
    `_matrix_again` and `_add`; or Y itself, and how new points are placed: `_arranged` and `_placement`.
    """

    # Columns of the independent sketch of large data: few, as fits are short.
    _REFERENCE_COLUMNS: ClassVar[int] = 32

    # Parameters of every embedding; subclasses list them in their constructors.
    n_components: int | str
    power: float | str | MultiscaleFilter
    bandwidth: float | str | FloatArray
    n_neighbors: int | str | None
    normalization: str
    alpha: float
    affinity: str
    metric: str | Callable[..., float]
    metric_params: dict[str, Any] | None
    device: str
    verbose: bool
    kernel_params: dict[str, Any] | None

    # Fitted attributes.
    embedding_: Any
    kernel_: HeatKernel
    n_components_: int
    power_: Power
    bandwidth_: float | FloatArray | None
    n_neighbors_: int | None
    n_iter_: int
    scaling_residual_: float
    moved_: FloatArray
    distance_error_: float
    _coefficients: FloatArray  # h(S) / S M, which embeds new points
    _labels: IntArray | None = None  # that were used by the fit, -1 if unknown
    _positive: NDArray[np.bool_] | None = None  # samples with a positive weight; None if all have one
    _sample_names: Any = None  # a list, a pandas index, or None for samples without names
    _frame_index: Any = None  # of the Dask frame that was fitted

    # Fitting

    @transactional
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Embed the rows of `X`. A failed or interrupted fit leaves the estimator unchanged.

        Parameters
        ----------
        X : array-like, tensor, sparse matrix, Dask array or frame, or networkx or igraph graph
            Points of shape (n_samples, n_features); a square matrix or a graph if affinity is "precomputed", square
            distances if metric is "precomputed". For a PyTorch tensor, or an array of CuPy or another library with
            DLPack on a GPU, the embedding is of the same kind and on the same device; for a Dask array or frame it is
            a Dask array, computed on the current cluster.
        y : array-like of int, shape (n_samples,), optional
            Ignored, except by HeatSketch with ``use_labels=True``: labels of classes, with -1 for unknown ones.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples. A sample with an integer weight counts as that many equal samples, so equal rows
            can be given once, with their number (`docs/theory/weights.md`). A sample with the weight 0 takes no part in
            the fit, and is placed like a new point.

        Returns
        -------
        self
        """
        options = self._check_options(X)
        backend, self._positive = distributed_backend(X), None
        if backend is not None:
            self._set_labels(y, None)
            backend.fit(self, X, options, sample_weight)
            return self
        points = self._check_data(X, reset=True)
        masses = check_masses(sample_weight, points.shape[0], zeros=True)
        if masses is not None and not masses.all():
            self._positive = masses > 0
        self._set_labels(y, points.shape[0])
        expected = self._predicted(points, options)
        with shown(self.verbose, expected.steps), computing(), quiet_blas():
            if self._positive is None:
                self._fit_points(points, options, masses)
            else:
                self._fit_positive(points, options, masses, self._positive)
        self.embedding_ = as_given(self.embedding_, X)
        self._sample_names = sample_names(X)
        return self

    def _fit_points(self, X: Any, options: KernelOptions, masses: Any = None, near: Near | None = None) -> None:
        """From checked points to the embedding, as in :mod:`heatsketch.reference`: K, A, h, M, Y."""
        K, rule = build_affinity(X, options, self._computed_in(X.dtype))
        A = normalized(K, options, rule, masses)  # Algorithm 1 or 2: diag(s) K diag(s)
        h = power_of(A, self.power)  # x^t, or all times
        self._tell("; ".join(f"{name}: {value}" for name, value in self._kernel_facts(A, h)))
        self._embed(A, h, X.dtype, near)

    def _fit_positive(self, X: Any, options: KernelOptions, masses: FloatArray, positive: NDArray[np.bool_]) -> None:
        """Fit to the samples with a positive weight, and place the others like new points."""
        local = options.given_bandwidth(len(masses))
        if np.ndim(local):
            options = replace(options, bandwidth=local[positive])
        X = X[:, positive] if options.precomputed else X
        self._fit_points(X[positive], options, masses[positive])
        fitted = self.kernel_.collect(self.embedding_)
        self.embedding_ = Y = np.empty((len(masses), self.n_components_), dtype=fitted.dtype)
        Y[positive] = fitted
        Y[~positive] = self._placement()(X[~positive])

    @computing()
    def _embed(self, kernel: HeatKernel, power: Power, dtype: Any, near: Near | None = None) -> None:
        """From a kernel and its filter to the embedding, in the dtype of the data."""
        Y = self._arranged(kernel, power, near)
        for name in ("_reference", "moved_"):
            self.__dict__.pop(name, None)
        self._set_kernel(kernel)
        self.power_ = power
        self._set_embedding(Y, dtype)

    def _arranged(self, kernel: HeatKernel, power: Power, near: Near | None = None) -> Any:
        """Y, (N, k); where there is a choice, near another embedding."""
        return self._multiplied(kernel, self._matrix(kernel, power, near), power)  # Algorithms 3, 4, 5

    def _multiplied(self, kernel: HeatKernel, M: Any, power: Power) -> Any:
        """``Y = diag(w) h(S) M``, and the coefficients that place new points."""
        Z = self._diffused(kernel, M, power)  # h(S) / S M, (N, k)
        Y = self._placed(kernel, Z, power)  # diag(w) S Z, (N, k)
        self._coefficients = kernel.collect(Z)
        return Y

    def _set_embedding(self, Y: Any, dtype: Any) -> None:
        self.n_components_ = Y.shape[1]
        self.embedding_ = self.kernel_.hand_out(Y).astype(dtype, copy=False)

    @property
    def _places_in_memory(self) -> bool:
        """Whether `_placement` places arrays in one process; on a cluster it may take Dask arrays."""
        return self.kernel_.in_memory

    def _placement(self) -> Callable[..., FloatArray]:
        """A function of new points, (m, d), and optionally `out`, that places them; it can be pickled."""
        return partial(self.kernel_.at_new_points, Z=self._coefficients)

    @abstractmethod
    def _matrix(self, kernel: HeatKernel, power: Power, near: Near | None = None) -> Any:
        """M, (N, k), which the kernel is multiplied by. Sets the attributes that describe it.

        Where there is a choice, the embedding is to come out near another one.
        """

    @abstractmethod
    def _matrix_again(self) -> Any:
        """M of a fitted embedding, (N, k)."""

    def _diffused(self, kernel: HeatKernel, M: Any, power: Power) -> Any:
        """``h(S) / S M``: ``S^(t-1) M`` for a single time.

        A constant trivial mode changes no distance; leaving it out preserves digits.
        """
        return coefficients(kernel, M, power, trivial=not kernel.trivial_is_constant)

    def _placed(self, kernel: HeatKernel, Z: Any, power: Power) -> FloatArray:
        """``diag(w) S Z``."""
        Y: FloatArray = kernel.collect(kernel.place(Z))
        check_spread(Y, power)
        return Y

    def _set_kernel(self, kernel: HeatKernel) -> None:
        scaling = kernel.scaling
        assert scaling is not None
        self.kernel_ = kernel
        self.bandwidth_ = kernel.bandwidth
        self.n_neighbors_ = getattr(kernel.affinity, "n_neighbors", None)
        self.n_iter_, self.scaling_residual_ = scaling.n_iter, scaling.residual

    @transactional
    def fit_transform(
        self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None, *, out: FloatArray | None = None
    ) -> Any:
        """Embed the rows of `X` and return the embedding.

        Parameters
        ----------
        X : array-like, tensor, sparse matrix, Dask array or frame, or networkx or igraph graph
            As for `fit`.
        y : array-like of int, shape (n_samples,), optional
            As for `fit`.
        sample_weight : array-like of shape (n_samples,), optional
            As for `fit`.
        out : ndarray of shape (n_samples, n_components), optional
            Array of float32 or float64 to write the embedding to, such as a memory-mapped file
            (:func:`numpy.lib.format.open_memmap`). It becomes `embedding_`.

        Returns
        -------
        Y : ndarray of shape (n_samples, n_components)
            After ``set_output(transform="pandas")`` a frame, with the index of `X` or the nodes of a graph.
        """
        if out is not None:
            backend = distributed_backend(X)
            if backend is not None:
                backend.refuse_out(out)
            self._check_options(X)
            check_out(out, n_rows(X), self._n_embedded())
        self.fit(X, y, sample_weight)
        if out is not None:
            out[:] = to_numpy(self.embedding_)
            self.embedding_ = out
        return self._output(self.embedding_, X)

    # Checks before any work

    def _check_options(self, X: Any) -> KernelOptions:
        """Check all parameters; return those of the kernel."""
        options = replace(kernel_options(self), device=device_for(X, self.device))
        check_power_option(self.power)
        if self.n_components != "auto":
            check_count(self.n_components, "n_components")
        self._check_parameters()
        find_device("cpu" if options.device == "auto" else options.device)  # raises if it is missing
        return options

    @abstractmethod
    def _check_parameters(self) -> None:
        """Check the parameters that only this estimator has."""

    def _set_labels(self, y: Any, n_samples: int | None) -> None:
        """Keep the labels of the samples, for embeddings that use them. On a cluster `n_samples` is None."""

    def _require_component_count(self) -> None:
        if isinstance(self.n_components, str):
            raise ValueError(
                f"n_components={self.n_components!r} was given; {type(self).__name__} cannot choose the number, which "
                "follows from the law of a random sketch. Give a number, or use GaussianProcessEmbedding."
            )

    def _check_data(self, X: Any, *, reset: bool) -> Any:
        options, is_new_graph = kernel_options(self), is_graph(X) and not reset
        X = from_user(X, options)
        if is_new_graph and X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"a graph of {X.shape[1]} nodes was given after a fit to {self.n_features_in_} nodes. Fit again to the "
                "whole graph, or place new nodes by their affinities to those of the fit, a matrix of shape "
                f"(m, {self.n_features_in_})."
            )
        with explained(precomputed=options.precomputed):
            X = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_min_samples=2 if reset else 1,
            )
        if not reset and isinstance(self.kernel_.affinity, GaussianAffinity) and self.kernel_.in_memory:
            if sparse.issparse(self.kernel_.affinity.X):
                X = sparse.csr_array(X)
            elif sparse.issparse(X):
                X = X.toarray()
        if not reset and options.precomputed and self._positive is not None:
            X = X[:, self._positive]
        return tidy(X, options, training=reset)

    def _computed_in(self, dtype: Any) -> Any:  # powers below 1 reach eigenvalues that float32 does not resolve
        return np.float64 if not isinstance(self.power, (str, MultiscaleFilter)) and self.power < 1 else dtype

    def _n_embedded(self) -> int:
        """Number of columns of the embedding."""
        return int(self.n_components)

    def _work(self, n_samples: int) -> Work:  # noqa: ARG002
        """What a fit does with the kernel, by which its memory and time are predicted."""
        return Work(self._n_embedded())

    def _predicted(self, X: Any, options: KernelOptions) -> Estimate:
        """The predicted memory and time of a fit to checked points, which must fit in memory.

        A fit that takes long is reported, with a faster way.
        """
        work, entries = self._work(X.shape[0]), getattr(X, "nnz", None)
        fit = partial(predict, dtype=self._computed_in(X.dtype), work=work, power=self.power, entries=entries)
        expected = fit(X.shape, options=options)
        expected.require_memory()
        if expected.is_long:
            name, way = type(self).__name__, faster_way(expected, X.shape, options, fit)
            text = f"{name} of {X.shape[0]:,} samples takes about {duration(expected.seconds)} on this machine{way}."
            with shown(self.verbose):
                say(text) if is_shown() else warn(f"{text} verbose=True shows progress.")
        return expected

    def _tell(self, text: str) -> None:
        """Print what was chosen, if verbose."""
        if self.verbose:
            say(f"[{type(self).__name__}] {text}")

    # New points, other times, more components

    @fitted
    def transform(self, X: Any, *, out: FloatArray | None = None) -> Any:
        """Embed new points without a new fit, and without moving the training points.

        A new point is placed by its own row a(x) of the kernel, at ``a(x) g(S) M`` with ``g(x) = h(x) / x``; by
        HeatSketch where it is best for the objective, while all others stay. Each row is embedded independently, and a
        training point gets its row of `embedding_`. One case is ambiguous: vertices of a graph without self-loops that
        have the same neighbours also have the same rows. Such a row is placed at their mean, unless X is the whole
        training matrix.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, n_features)
            For precomputed input, affinities or distances from the new points to the training points, of shape
            (m, n_samples). A memory-mapped file is read in batches.
        out : ndarray of shape (m, n_components), optional
            Array to write the embedding to, such as a memory-mapped file.

        Returns
        -------
        Y : ndarray of shape (m, n_components)
        """
        backend = distributed_backend(X)
        if backend is not None:
            return self._output(backend.transform(self, X, out), X)
        points = self._check_data(X, reset=False)
        if out is None:
            out = np.empty((points.shape[0], self.n_components_), dtype=self._Y.dtype)
        else:
            check_out(out, points.shape[0], self.n_components_)
        return self._output(as_given(self._placement()(points, out=out), X), X)

    @fitted
    def inverse_transform(self, X: Any) -> Any:
        """Estimate data at positions in the embedding, by local linear regression over the 30 nearest embedded points.

        At the position of a training point the result is that point. Other positions do not determine the data: where
        points that are embedded next to each other differ, the result is an average. Far from all points it is the
        data at the nearest edge of the embedding. The result is ``U X`` with the training data X and weights U that
        depend on the embedding only (:mod:`heatsketch.analysis.inverse`). Their sum is 1, and some may be negative, so
        that values slightly outside the range of the data are possible.

        Parameters
        ----------
        X : array-like of shape (m, n_components)
            Positions, such as those of `transform`.

        Returns
        -------
        X_original : ndarray of shape (m, n_features)
            Dense, also if the training data are sparse.

        Examples
        --------
        >>> import heatsketch as hs
        >>> images, _ = hs.datasets.digits()
        >>> model = hs.HeatSketch(n_components=2, random_state=0).fit(images[:1000])
        >>> found = model.inverse_transform(model.transform(images[1000:]))
        >>> error = ((found - images[1000:]) ** 2).sum() / ((images[:1000].mean(axis=0) - images[1000:]) ** 2).sum()
        >>> bool(error < 0.6)  # of the variance
        True
        """
        affinity = self.kernel_.affinity
        if not isinstance(affinity, GaussianAffinity) or affinity.metric.precomputed:
            raise ValueError(
                f"inverse_transform needs points, and this {type(self).__name__} was fitted to precomputed "
                "affinities or distances; average your own data with the weights of "
                "heatsketch.analysis.inverse.local_weights(model.embedding_, X)."
            )
        self._require_memory("inverse_transform()")
        places = check_array(from_user(X, kernel_options(self)), dtype=[np.float64, np.float32], input_name="X")
        if places.shape[1] != self.n_components_:
            raise ValueError(
                f"X was given with {places.shape[1]} columns; give positions in the embedding, which has "
                f"{self.n_components_} components."
            )
        data = local_weights(self._Y, places) @ affinity.X
        return as_given((data.toarray() if sparse.issparse(data) else data).astype(affinity.X.dtype, copy=False), X)

    @fitted
    def at_powers(self, powers: ArrayLike) -> FloatArray:
        """Embeddings of the training points at several diffusion times, all from one pass over the kernel.

        Parameters
        ----------
        powers : array-like of float, shape (n_powers,)

        Returns
        -------
        Y : ndarray of shape (n_powers, n_samples, n_components)
        """
        require_positive_weights(self, "at_powers()")
        times = check_powers(powers)
        if times.min() < self._earliest:
            raise ValueError(
                f"the time {times.min():g} was given; this embedding is known from time {self._earliest:g} on, because "
                "details that the heat has smoothed by then do not come back. Use DiffusionMaps or "
                "GaussianProcessEmbedding for earlier times."
            )
        blocks = self._at_powers(times.tolist())
        for t, Y in zip(times, blocks, strict=True):
            check_spread(Y, t)
        scales = [self.kernel_.hand_out(Y).astype(self._Y.dtype, copy=False) for Y in blocks]
        stacked: FloatArray = as_given(np.stack(scales), self.embedding_)
        return stacked

    @property
    def _earliest(self) -> float:
        """The earliest diffusion time at which the embedding is known."""
        return 0.0

    def _powered_matrix(self) -> Any:
        """M, for embeddings at other times; None if `_at_powers` needs no products with the kernel."""
        return self._matrix_again()

    def _at_powers(self, powers: list[float]) -> list[FloatArray]:
        blocks = diffuse(self.kernel_, self._matrix_again(), powers, trivial=not self.kernel_.trivial_is_constant)
        return [self.kernel_.weigh_rows(block) for block in blocks]

    @transactional
    @fitted
    def extend(self, X: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Add samples to a fitted embedding; earlier samples stay as close to their positions as the new data allow.

        The kernel is computed again, from all samples. A random sketch keeps its rows, so that the result equals a fit
        to all samples with the same seed. Diffusion maps keep their signs. HeatSketch starts from the present
        embedding, and is rotated towards it; if more samples are added than there were, it starts afresh. With
        objectives for distances alone, samples move about as far as in a new fit. The labels of new samples are
        unknown.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, n_features)
            New samples. They follow the earlier ones in `embedding_`. Names of samples are kept if the new ones have
            names as well.
        sample_weight : array-like of shape (m,), optional
            Weights of the new samples; 1 by default.

        Returns
        -------
        self
            With `moved_`, of shape (n_samples,): how far each earlier sample moved, relative to the root mean square
            distance of samples from their mean. A change of scale does not count, because diffusion distances shrink
            as the number of samples grows.

        See Also
        --------
        transform : Place new samples without moving any other.
        """
        require_positive_weights(self, "extend()")
        options, before, kernel = self._check_options(X), self.embedding_, self.kernel_
        points = self._check_data(X, reset=False)
        every = all_points(kernel, points, options.bandwidth)
        if self._labels is not None:
            self._labels = np.concatenate([self._labels, np.full(points.shape[0], -1)])
        masses = all_masses(kernel, sample_weight, points.shape[0])
        predict(every.shape, kernel.dtype, options, self._work(every.shape[0]), power=self.power_).require_memory()
        near = Near(self._Y, points)
        self._fit_points(every, options, masses, near)
        self.moved_ = near.distances(self._Y)
        self.embedding_ = as_given(self.embedding_, before)
        self._sample_names = all_names(self._sample_names, sample_names(X))
        moved = f"{self.moved_.mean():.2g} of the embedding's radius, on average"
        self._tell(f"{points.shape[0]:,} samples added; earlier samples moved by {moved}")
        return self

    @transactional
    @fitted
    def add_components(self, n: int | None = None, *, distance_error: float | None = None) -> Self:
        """Add `n` components to a fitted embedding, or as many as a wanted error of distances needs.

        A random sketch gets more columns and equals a fit with all of them from the start. Diffusion maps get the next
        eigenvectors; their present components stay. HeatSketch optimises all components again.

        Parameters
        ----------
        n : int, optional
        distance_error : float in (0, 1), optional
            Instead of `n`, such as 0.05: add columns to a random sketch until, by its law, the relative error of a
            distance is at most this with probability .95. `distance_error_` is the error reached.

        Returns
        -------
        self
        """
        if (n is None) == (distance_error is None):
            raise ValueError(
                f"n={n!r} and distance_error={distance_error!r} were given; give one of the two: a number of "
                "components, or the error to be reached."
            )
        require_positive_weights(self, "add_components()")
        before = self.embedding_
        if distance_error is None:
            self._add(check_count(n, "n"))
        else:
            self.distance_error_ = self._add_until(check_level(distance_error, "distance_error"))
            self._tell(f"{self.n_components_} components: relative error {self.distance_error_:.3g}")
        self.embedding_ = as_given(self.embedding_, before)
        return self

    @abstractmethod
    def _add(self, n: int) -> None:
        """Add n components."""

    def _add_until(self, wanted: float) -> float:
        """Add components until distances are as accurate as wanted; return the error reached."""
        raise ValueError(
            f"distance_error={wanted:g} was given; the error is known from the law of a random sketch, which this "
            f"{type(self).__name__} does not have. Give n, or use GaussianProcessEmbedding with a Gaussian sketch."
        )

    # What a fitted embedding can be asked

    @property
    def _Y(self) -> FloatArray:
        """The embedding of the points of the kernel, a NumPy array, or a distributed array if that is on a cluster."""
        Y: FloatArray = self.kernel_.collect(self.embedding_)
        return Y if self._positive is None else Y[self._positive]

    @fitted
    def diffusion_distances(self, pairs: ArrayLike | None = None, *, interval: float | None = None) -> Any:
        """Distances in the embedding, with confidence intervals of the diffusion distances on request.

        Parameters
        ----------
        pairs : array-like of int or str, shape (m, 2), optional
            Pairs of training points, by row number or name (`sample_names_`); all pairs by default, except on a
            cluster. Integers are always row numbers; names that are integers are given as text.
        interval : float in (0, 1), optional
            Level of the confidence intervals, such as 0.95. A distance in the embedding that lies outside its interval
            is wrong. The intervals follow from the law of a Gaussian sketch and are exact for each pair: the sketch is
            the embedding itself if it is one, otherwise an independent one, computed on first use. For random signs the
            law is an approximation, which is poor with few components and few neighbours. If the embedding is no such
            sketch and the pairs contain at most 16 points, exact diffusion distances are computed, and the intervals
            are as wide as rounding errors.

        Returns
        -------
        distances : ndarray of shape (m,)
            Condensed if `pairs` is None, as :func:`scipy.spatial.distance.pdist` returns them.
        low, high : ndarrays of shape (m,)
            If `interval` is given.
        """
        pairs = None if pairs is None else self._rows_named(pairs)
        if interval is None:
            return embedded_distances(self.kernel_.collect(self.embedding_), pairs)
        level = check_level(interval, "interval")
        require_positive_weights(self, "diffusion_distances() with an interval")
        return embedded_distances(self._Y, pairs), *self._interval(pairs, level)

    @fitted
    def geodesic_distances(self, pairs: ArrayLike | None = None, *, interval: float | None = None) -> Any:
        """Lengths along the data, estimated from a random sketch of the kernel (:func:`heatsketch.geodesic_distances`).

        The sketch is independent of the embedding, and has as many columns, at least 128. For exact distances use
        ``hs.geodesic_distances(model.kernel_, model.power_, pairs)``.

        Parameters
        ----------
        pairs : array-like of int or str, shape (m, 2), optional
            Pairs of training points, by row number or name, as for `diffusion_distances`; all pairs by default, except
            on a cluster.
        interval : float in (0, 1), optional
            Level of confidence intervals, such as 0.95. They are exact for each pair at a single time, and at least of
            that level for the multiscale filter.

        Returns
        -------
        distances : ndarray of shape (m,)
            Condensed if `pairs` is None. Infinite between components of the neighbour graph. On a cluster the
            components are not known, and estimates between them may be finite.
        low, high : ndarrays of shape (m,)
            If `interval` is given; `high` is infinite where the sketch cannot exclude it.
        """
        require_positive_weights(self, "geodesic_distances()")
        level = None if interval is None else check_level(interval, "interval")
        pairs = None if pairs is None else self._rows_named(pairs)
        return sketched_geodesics(self.kernel_, self.power_, pairs, level, n_columns=max(COLUMNS, self.n_components_))

    @fitted
    def pseudotime(self, roots: ArrayLike, *, kind: str = "auto", interval: float | None = None) -> Pseudotime:
        """Distance of every training point from a root along the data, between 0 and 1, from a random sketch.

        It takes about as long as a fit; :func:`heatsketch.pseudotime` is exact. Points in components of the neighbour
        graph without a root are reached across the shortest gap, with a warning. On a cluster the components are not
        known, and such points get the largest distance that the sketch resolves.

        Parameters
        ----------
        roots : int or str, array-like of either, or boolean mask of shape (n_samples,)
            Row numbers or names (`sample_names_`) of training points where time begins. Integers are always row
            numbers; names that are integers are given as text. A boolean pandas Series is aligned by its index. With
            several roots the time is that from the nearest.
        kind : {"auto", "path", "geodesic", "diffusion"}
            Lengths of the shortest paths along the neighbour graph; lengths along the data at all diffusion times; or
            diffusion distances, which grow like the square root of lengths. "auto" is "path", or "geodesic" if an
            interval is asked for or the kernel has no neighbour graph.
        interval : float in (0, 1), optional
            Level of confidence intervals of the exact distance from the root, such as 0.95. There are none for paths,
            and none beyond gaps.

        Returns
        -------
        pseudotime : Pseudotime
            With ``.time``, ``.root`` and ``.gaps``, ``.low`` and ``.high`` if `interval` is given, all of shape
            (n_samples,), and ``.branches()``.
        """
        require_positive_weights(self, "pseudotime()")
        level = None if interval is None else check_level(interval, "interval")
        kind = kind_of(self.kernel_, kind, level)
        if kind == "path":
            measure: Any = paths(self.kernel_, self.power_)
        elif kind == "geodesic":
            measure = partial(geodesics_from, self.kernel_, self.power_)
        else:
            measure = partial(sketched_diffusion, self._reference_sketch())
        return time_from_roots(self.kernel_, self._rows_named(self._mask_in_order(roots)), measure, kind, level)

    def _interval(self, pairs: ArrayLike | None, level: float) -> tuple[FloatArray, FloatArray]:
        if pairs is not None and len(np.unique(chosen := check_pairs(pairs, self.kernel_.shape[0]))) <= _FEW_POINTS:
            return exact_interval(self.kernel_, self.power_, chosen)
        return self._reference_sketch().interval(pairs, level)

    def _reference_sketch(self) -> ReferenceSketch:
        """Independent sketch for intervals, made once."""
        if "_reference" not in self.__dict__:
            self._reference = reference_sketch(self.kernel_, self.power_, self._REFERENCE_COLUMNS)
        return self._reference

    @fitted
    def unsupported_neighbors(
        self, n_neighbors: int = 15, *, interval: float = 0.95, n_points: int | None = 2000
    ) -> NeighborSupport:
        """Find false neighbours: neighbours in the embedding that are not neighbours by diffusion distance.

        A sketch that is independent of the embedding gives an interval for each distance. A neighbour is unsupported
        if even the lower end of its interval exceeds twice a radius that contains at least `n_neighbors` true
        neighbours. If the embedding keeps all times, the factor is sqrt(2) instead of 2, because these distances grow
        like the square root of lengths.

        Parameters
        ----------
        n_neighbors : int
        interval : float in (0, 1)
            Level of the intervals.
        n_points : int, optional
            Number of random points whose neighbours are examined; None for all points. With 2000 points the standard
            error of the share of supported neighbours is at most 1.1%.

        Returns
        -------
        support : NeighborSupport
            With the points, ``.points``, their neighbours ``.indices`` and ``.supported``, both (n_points,
            n_neighbors), ``.share`` of each point, and ``.plot()``.
        """
        level = check_level(interval, "interval")
        check_count(n_neighbors, "n_neighbors")
        require_positive_weights(self, "unsupported_neighbors()")
        self._require_memory("unsupported_neighbors()")
        if n_points is not None:
            check_count(n_points, "n_points")
        return neighbor_support(self._Y, self._reference_sketch(), n_neighbors, level, n_points)

    @fitted
    def stability(
        self,
        under: str = "data",
        *,
        n_repeats: int = 3,
        share: float = 0.8,
        n_neighbors: int = 15,
        n_points: int | None = 1000,
        random_state: int | None = 0,
    ) -> StabilityMap:
        """Measure where the embedding changes if it is repeated with another seed or with resampled data.

        Parameters
        ----------
        under : {"data", "seed"}
            "data" fits to random subsets, with the same bandwidth (or rule for it) and power, and embeds points by
            them; "seed" draws another random matrix for the same kernel.
        n_repeats : int
        share : float in (0, 1)
            Share of the points in each subset.
        n_neighbors : int
            Number of neighbours that are compared.
        n_points : int, optional
            If there are more points than this, a random sample of this size is embedded with the same parameters, and
            the stability of that embedding is measured. Neighbours in a sample are farther apart, so only large
            features are tested. None for all points, which takes `n_repeats` fits. A precomputed affinity is not
            sampled.
        random_state : int or None

        Returns
        -------
        stability : StabilityMap
            With ``.kept`` and ``.moved`` of each of ``.points``, and ``.plot()``.
        """
        check_count(n_repeats, "n_repeats")
        check_count(n_neighbors, "n_neighbors")
        check_level(share, "share")
        require_positive_weights(self, "stability()")
        self._require_memory("stability()")
        if n_points is not None:
            check_count(n_points, "n_points", "an integer of at least 2, or None", least=2)
        repetitions = repeated_embeddings(self, under, n_repeats, share, n_points=n_points, random_state=random_state)
        return stability_map(repetitions, under, n_neighbors)

    @fitted
    def scales(self, powers: ArrayLike | None = None) -> Scales:
        """Entropy, dimensions and distortion of the embedding at many diffusion times.

        Parameters
        ----------
        powers : array-like of float, optional
            By default the times of the multiscale filter; if the power is a single time, this one and 1, 2, 4, ...,
            1024, as long as the kernel has not decayed to a constant.

        Returns
        -------
        scales : Scales
            With an array for each quantity, and ``.plot()``.
        """
        times = None if powers is None else check_powers(powers)
        return measure_scales(self.kernel_, self.power_, self._powered_matrix(), self._at_powers, times)

    @fitted
    def diagnose(self) -> Diagnosis:
        """Look for common problems; each finding has a measured value and a remedy.

        Returns
        -------
        diagnosis : Diagnosis
            A tuple of findings, empty if nothing looks wrong; ``print`` shows it.
        """
        features = getattr(self, "feature_names_in_", None)
        return diagnose(Subject(self.kernel_, self.power_, self.n_components_, features))

    @fitted
    def distortion(self, X: Any = None, *, exhaustive: bool | None = None, random_state: int | None = 0) -> Distortion:
        """Distortion of the embedding against the exact diffusion distance of its own kernel and power.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, n_features), optional
            New points, as for `transform`; by default the training points. At most 2000 new points are measured, fewer
            if there are more than 8000 training points.
        exhaustive : bool, optional
            Whether all pairs of training points are measured; by default up to 2000 points. Otherwise L is a lower
            bound, attained by one of 16 pairs that a search finds, and ``.central`` is an estimate from 20,000 random
            pairs, whose distances are known to within 14% (9% for HeatSketch; standard errors).
        random_state : int or None
            Seed of the sample of pairs.

        Returns
        -------
        distortion : Distortion
            With ``.constant`` (L), ``.log``, ``.central`` and the pairs at which L is attained.
        """
        kernel, power = self.kernel_, self.power_
        if X is None:
            require_positive_weights(self, "distortion()")
            sketch = self._reference_sketch
            options: dict[str, Any] = {"exhaustive": exhaustive, "random_state": random_state, "reference": sketch}
            return kernel_distortion(self._Y, kernel, power, **options)
        self._require_memory("the distortion of new points")
        backend = distributed_backend(X)
        points = self._check_data(X if backend is None else backend.gathered(X), reset=False)
        return new_point_distortion(points, kernel, power, self._placement(), random_state=random_state)

    @property
    @quiet_blas()
    def intrinsic_dimension_(self) -> float | None:
        """Estimate of the intrinsic dimension of the training points; None for a precomputed affinity."""
        check_is_fitted(self)
        affinity = self.kernel_.affinity
        if not isinstance(affinity, GaussianAffinity):
            return None
        return slope_profile(affinity.X, affinity.metric).dimension

    @property
    @quiet_blas()
    def density_(self) -> FloatArray:
        """Density of the data around each training point, relative to the median, shape (n_samples,).

        If each point has a scale s of its own, the distance to its k-th neighbour, the density is ``s^-d`` with d the
        intrinsic dimension. Otherwise it is the kernel density estimate, the row sums of the affinity.
        """
        check_is_fitted(self)
        try:
            require_positive_weights(self, "density_")
            self._require_memory("density_")
        except ValueError as error:  # hasattr, and with it dir() and notebooks, expect AttributeError
            raise AttributeError(str(error)) from None
        kernel, scales = self.kernel_, self.kernel_.bandwidth
        if isinstance(scales, np.ndarray):
            logs = -0.5 * (self.intrinsic_dimension_ or 1.0) * np.log(scales.astype(np.float64))
        else:
            affinity = kernel.affinity
            assert affinity is not None
            masses = None if kernel.scaling is None else kernel.scaling.masses
            sums = to_numpy(affinity.operator @ (np.ones(kernel.shape[0]) if masses is None else masses))
            sums = sums.astype(np.float64)
            logs = np.log(np.maximum(sums, np.finfo(np.float64).tiny))
        density: FloatArray = np.exp(logs - np.median(logs))
        return density

    def _rows_named(self, samples: ArrayLike) -> Any:
        """Numbers of samples that are given by names; numbers and masks as they are."""
        given = np.atleast_1d(np.asarray(samples))
        if given.dtype.kind in "iu":
            self._warn_about_names(given)
        if given.dtype.kind not in "OU":
            return samples
        names = np.array([str(name) for name in self.sample_names_])
        wanted = given.ravel().tolist()
        rows = [np.flatnonzero(names == str(name)) for name in wanted]
        for name, found in zip(wanted, rows, strict=True):
            if len(found) != 1:
                held = "there is no" if not len(found) else f"there are {len(found)} samples called"
                raise ValueError(f"{held} {name!r} in sample_names_; give the name of one sample, or its number.")
        return np.concatenate(rows).reshape(given.shape)

    def _warn_about_names(self, rows: NDArray[Any]) -> None:
        """Warn about row numbers that are names of other samples."""
        if self._sample_names is None:
            return
        row_of = {name: row for row, name in enumerate(self.sample_names_.tolist()) if isinstance(name, Integral)}
        for row in np.unique(rows).tolist() if row_of else ():
            if row_of.get(row, row) != row:
                warn(
                    f"{row} is taken as a row number, and the sample named {row} is in row {row_of[row]}; give names "
                    f"as text, such as {str(row)!r}."
                )
                return

    def _mask_in_order(self, mask: Any) -> Any:
        """A boolean series of pandas as a mask in the order of the samples, by its index; others as they are."""
        pandas = sys.modules.get("pandas")
        if pandas is None or not isinstance(mask, pandas.Series) or mask.dtype.kind != "b":
            return mask
        names, index = pandas.Index(self.sample_names_), mask.index
        if names.is_unique and index.is_unique and len(index) == len(names) and index.isin(names).all():
            mask = mask.reindex(names)
        elif self._sample_names is not None and not index.equals(names):
            raise ValueError(
                "the index of the mask differs from sample_names_; give a mask with the names of the samples, or "
                "mask.to_numpy() if its order is that of the samples."
            )
        return mask.to_numpy(dtype=bool)

    def _require_memory(self, question: str) -> None:
        """Raise an error for what needs all points in one process."""
        if not self.kernel_.in_memory:
            raise ValueError(
                f"{question} needs all {self.kernel_.shape[0]} points in memory, and this embedding is on a cluster. "
                "Fit to a part of the data in memory instead."
            )

    # Names of samples, frames

    @property
    def sample_names_(self) -> NDArray[Any]:
        """Names of the training samples, shape (n_samples,).

        The nodes of a networkx graph, the vertex attribute ``name`` of an igraph graph, the index of a pandas frame,
        or 0, 1, 2, ...
        """
        check_is_fitted(self)
        names = self._sample_names
        if names is None:
            return np.arange(len(self.embedding_))
        # np.array would turn names that are tuples into a table.
        return np.fromiter(names, dtype=object, count=len(names)) if isinstance(names, list) else names.to_numpy()

    def to_dict(self) -> dict[Hashable, FloatArray]:
        """The embedding as a dictionary from the name of a sample to its coordinates.

        networkx takes positions in this form: ``networkx.draw(graph, pos=model.to_dict())``.

        Returns
        -------
        vectors : dict of ndarrays of shape (n_components,)
            In the order of the samples; a copy of the embedding.
        """
        check_is_fitted(self)
        names = list(range(len(self.embedding_)) if self._sample_names is None else self._sample_names)
        vectors = dict(zip(names, to_numpy(self.embedding_).copy(), strict=True))
        if len(vectors) < len(names):
            raise ValueError("names of samples are repeated; use to_frame(), or make them unique.")
        return vectors

    def to_frame(self) -> Any:
        """The embedding as a pandas frame.

        Returns
        -------
        frame : pandas.DataFrame of shape (n_samples, n_components)
            Its index holds the names of the samples, its columns those of `get_feature_names_out`.
        """
        check_is_fitted(self)
        backend = distributed_backend(self.embedding_)
        if backend is not None:
            return backend.as_frame(self, self.embedding_, self._frame_index)
        pandas, index = optional("pandas", "make a frame"), self._sample_names
        if isinstance(index, list):
            index = pandas.Index(index)  # tuples become levels
        return pandas.DataFrame(to_numpy(self.embedding_), index=index, columns=self.get_feature_names_out(), copy=True)

    def _output(self, Y: Any, X: Any) -> Any:
        """The embedding of X in the container that ``set_output`` configures."""
        kind = _get_output_config("transform", self)["dense"]
        if kind == "default":
            return Y
        backend = distributed_backend(Y)
        if backend is not None:
            if kind != "pandas":
                raise ValueError(f"set_output(transform={kind!r}) was given with a Dask array; use 'pandas'.")
            return backend.as_frame(self, Y, getattr(X, "index", None))
        frame = _wrap_data_with_container("transform", to_numpy(Y), X, self)
        if kind == "pandas" and is_graph(X):
            frame.index = optional("pandas", "make a frame").Index(node_names(X))
        return frame

    # scikit-learn, notebooks, pickle

    @property
    def _n_features_out(self) -> int:
        """Number of columns, for scikit-learn's names of output features."""
        return int(self.embedding_.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.metric != "precomputed"
        tags.input_tags.pairwise = "precomputed" in (self.affinity, self.metric)
        tags.input_tags.positive_only = tags.input_tags.pairwise
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _kernel_facts(self, kernel: HeatKernel, power: Power) -> Facts:
        """The kernel and the diffusion times of a fit, for users."""
        affinity, scaling = kernel.affinity, kernel.scaling
        assert affinity is not None
        assert scaling is not None
        facts = [("samples", f"{kernel.shape[0]:,}, in {kernel.dtype}"), ("kernel", affinity.description)]
        if isinstance(affinity, GaussianAffinity):
            median = "median of " if np.ndim(affinity.epsilon) else ""
            facts.append(("bandwidth", f"{median}{affinity.typical_epsilon:.4g} ({kernel.bandwidth_rule})"))
        residual = f", row sums within {scaling.residual:.1e} of 1" if scaling.residual else ""
        facts.append(("normalisation", f"{self.normalization}, {scaling.n_iter} products{residual}"))
        return [*facts, ("power", in_words(power))]

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + self._found_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._found_html()
        return bundle

    def _found_html(self) -> str:
        if not hasattr(self, "embedding_"):
            return ""
        facts = [*self._kernel_facts(self.kernel_, self.power_)]
        exact = getattr(self, "n_exact_", 0)
        facts.append(("components", f"{self.n_components_}{f', {exact} of them exact' if exact else ''}"))
        if hasattr(self, "distortion_"):
            facts.append(("distortion", str(self.distortion_)))
        return html_table(facts, title="Found")

    def __getstate__(self) -> Any:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name not in _NOT_PICKLED}


def require_positive_weights(model: HeatEmbedding, question: str) -> None:
    """Raise ValueError if some samples have the weight 0: the question needs all of them in the kernel."""
    positive = model._positive
    if positive is not None:
        raise ValueError(
            f"{question} needs samples that were fitted, and {(~positive).sum()} of {len(positive)} have the weight 0. "
            "Fit to the others alone: fit(X[sample_weight > 0], sample_weight=sample_weight[sample_weight > 0])."
        )


def check_spread(Y: Any, power: Power) -> None:
    """Raise an error if all points coincide, up to the smallest normal number, or overflow."""
    xp = array_namespace(Y)
    ranges = to_numpy(xp.max(Y, axis=0) - xp.min(Y, axis=0))
    if not xp.all(xp.isfinite(Y)) or ranges.max(initial=0.0) < np.finfo(ranges.dtype).tiny:
        raise ValueError(
            f"all points coincide in the embedding: at power={in_words(power)} nothing but the constant is left of the "
            f"heat kernel in {ranges.dtype}. Use a smaller power or bandwidth, or float64 data; if the affinity is "
            "precomputed, check that its rows differ."
        )
