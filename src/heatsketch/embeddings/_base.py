"""What all embeddings share: validation, the kernel, new points, distances and distortion."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .._typing import FloatArray, IntArray
from ..affinity import GaussianAffinity
from ..bandwidth import intrinsic_dimension
from ..costs import predict
from ..diffusion import check_power
from ..distortion import ALL_PAIRS, QUANTILES, Distortion, kernel_distortion, unseen_distortion
from ..heat import HeatKernel, build_heat_kernel
from ..inputs import KernelOptions, check_count, explained, from_user, tidy
from ..kernels import magnitude
from ..processes import check_pairs
from ..progress import say, shown
from ..sketch import resolve_seed
from ..threads import quiet_blas

# Entries of kernel rows of new points whose distortion is measured (128 MB, and a few times as much to diffuse them).
_ROW_ENTRIES = 1 << 24


class HeatEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, metaclass=ABCMeta):
    """An embedding ``Y = diag(w) S^t M`` of the training points, which new points join by their kernel rows.

    A subclass owes `_check_parameters`, `_embed`, `_at_powers` and `add_components`.
    """

    # The parameters that every embedding has; subclasses list them in their constructors.
    n_components: int | str
    power: float
    bandwidth: float | str
    normalization: str
    alpha: float
    affinity: str
    metric: str | Callable[..., float]
    metric_params: dict[str, Any] | None
    bandwidth_neighbor: int | None
    n_neighbors: int | str | None
    cutoff: float | None
    diagonal: str
    device: str
    tol: float
    max_iter: int
    verbose: bool

    # What every fitted embedding has.
    embedding_: FloatArray
    kernel_: HeatKernel
    n_components_: int
    _coefficients: FloatArray

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Embed the rows of `X`.

        Parameters
        ----------
        X : array-like, sparse matrix, or networkx or igraph graph
            Points of shape (n_samples, n_features); a square matrix or a graph if affinity is "precomputed", square
            distances if metric is "precomputed".
        y : None
            Ignored.

        Returns
        -------
        self
        """
        options = self._kernel_options()
        self._check_common()
        self._check_parameters()
        X = self._validate(X, reset=True)
        dtype = X.dtype
        # Powers below 1 reach eigenvalues that float32 does not resolve.
        computed_in = np.float64 if self.power < 1 else dtype
        width = self._columns(X.shape[0])
        given = {"sparse_points": issparse(X), "entries": getattr(X, "nnz", None)}
        plan = predict(X.shape, computed_in, options, n_components=width, **given)
        plan.require_memory()
        # Products with a matrix that is held are BLAS's own; with graphs the threads are ours.
        graph = plan.n_neighbors is not None or options.cutoff is not None or issparse(X)
        with shown(self.verbose), quiet_blas() if graph else nullcontext():
            kernel = build_heat_kernel(X, options, computed_in)
            self._say_kernel(kernel)
            fitted = self._embed(kernel)
        self._set_kernel(kernel)
        for name, value in fitted.items():
            setattr(self, name, value)
        self.embedding_ = self.embedding_.astype(dtype, copy=False)
        return self

    def fit_transform(self, X: Any, y: Any = None, *, out: FloatArray | None = None) -> FloatArray:
        """Embed the rows of `X` and return the embedding.

        Parameters
        ----------
        X : array-like, sparse matrix, or networkx or igraph graph
            As for `fit`.
        y : None
            Ignored.
        out : ndarray of shape (n_samples, n_components), optional
            Where to write the embedding, in float32 or float64, for example a file mapped by
            :func:`numpy.lib.format.open_memmap`; `embedding_` is then this array.

        Returns
        -------
        Y : ndarray of shape (n_samples, n_components)
        """
        if out is not None:
            self._check_common()
            self._check_parameters()
            _check_out(out, _n_rows(X), self._n_embedded(_n_rows(X)))
        self.fit(X, y)
        if out is not None:
            out[:] = self.embedding_
            self.embedding_ = out
        return self.embedding_

    def transform(self, X: Any, *, out: FloatArray | None = None) -> FloatArray:
        """Embed new points by their own rows of the kernel, ``a(x) S^(t-1) M``.

        Each row is embedded by itself, and a training point lands where `embedding_` has it. One case is undecidable:
        vertices of a graph without self-loops that have the same neighbours also have the same rows. Such a row alone
        is placed at their mean; given as the whole training matrix, rows are told apart by their order.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, n_features)
            For precomputed input the rows of the new points against the training points, (m, n_samples). A file mapped
            into memory is read in batches.
        out : ndarray of shape (m, n_components), optional
            Where to write the embedding, for example a file mapped by :func:`numpy.lib.format.open_memmap`.

        Returns
        -------
        Y : ndarray of shape (m, n_components)
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        if out is None:
            out = np.empty((X.shape[0], self.n_components_), dtype=self.embedding_.dtype)
        else:
            _check_out(out, X.shape[0], self.n_components_)
        with shown(self.verbose):
            return self.kernel_.at_new_points(X, self._coefficients, out)

    def at_powers(self, powers: ArrayLike) -> FloatArray:
        """Embeddings of the training points at several diffusion times, all from one pass over the kernel.

        Parameters
        ----------
        powers : array-like of float, shape (n_powers,)

        Returns
        -------
        Y : ndarray of shape (n_powers, n_samples, n_components)
        """
        check_is_fitted(self)
        times = np.asarray(powers, dtype=np.float64)
        if times.ndim != 1 or not len(times):
            raise ValueError(f"powers of shape {times.shape} were given; give a list of one or more diffusion times.")
        for t in times:
            check_power(t)
        scales = [Y.astype(self.embedding_.dtype, copy=False) for Y in self._at_powers(times.tolist())]
        for t, Y in zip(times, scales, strict=True):
            self._refuse_collapse(Y, t)
        return np.stack(scales)

    def diffusion_distances(self, pairs: ArrayLike | None = None, *, interval: float | None = None) -> Any:
        """Distances in the embedding, which approximate diffusion distances.

        Parameters
        ----------
        pairs : array-like of int, shape (m, 2), optional
            Pairs of training points; all pairs when left out.
        interval : None
            Only random sketches have a law from which intervals follow.

        Returns
        -------
        distances : ndarray of shape (m,)
            When `pairs` is None condensed, as :func:`scipy.spatial.distance.pdist` returns them.
        """
        check_is_fitted(self)
        if interval is not None:
            raise ValueError(
                f"interval={interval!r} was given; only random sketches have a law from which intervals follow. Use "
                "GaussianProcessEmbedding."
            )
        return embedded_distances(self.embedding_, pairs)

    def distortion(
        self,
        X: Any = None,
        *,
        quantiles: tuple[float, ...] = QUANTILES,
        exhaustive: bool | None = None,
        random_state: int | None = 0,
    ) -> Distortion:
        """Distortion of the embedding against the exact diffusion distance of its own kernel and time.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, n_features), optional
            New points, as for `transform`: how well points are placed that were not seen. At most 2000 of them are
            measured, and fewer where there are more than 8000 training points, taken at random. By default the training
            points.
        quantiles : tuple of float in (0, 1/2)
            For the versions of L that leave extreme pairs out.
        exhaustive : bool, optional
            Whether all pairs of training points are measured; by default up to 2000 points. Otherwise L is a lower
            bound.
        random_state : int or None
            Seed of the sample of pairs.

        Returns
        -------
        distortion : Distortion
            With ``.constant`` (L), ``.log``, ``.central`` and the pairs at which L is attained.
        """
        check_is_fitted(self)
        if X is not None:
            return self._distortion_of(X, quantiles, random_state)
        return kernel_distortion(
            self.embedding_,
            self.kernel_,
            self.power_,
            quantiles=quantiles,
            exhaustive=exhaustive,
            random_state=random_state,
        )

    def _distortion_of(self, X: Any, quantiles: tuple[float, ...], random_state: int | None) -> Distortion:
        X = self._validate(X, reset=False)
        m, n = X.shape[0], self.embedding_.shape[0]
        if m < 2:
            raise ValueError(f"{m} new point was given; the distortion is a ratio of distances, so give at least 2.")
        size = max(2, min(ALL_PAIRS, _ROW_ENTRIES // n))
        if m > size:
            X = X[np.sort(np.random.default_rng(resolve_seed(random_state)).choice(m, size, replace=False))]
        Y = self.kernel_.at_new_points(X, self._coefficients)
        found = unseen_distortion(Y, self.kernel_, self.power_, X, quantiles=quantiles)
        return found if m <= size else replace(found, exhaustive=False)

    @abstractmethod
    def add_components(self, n: int) -> Self:
        """Add `n` components to a fitted embedding."""

    def _refuse_auto_components(self) -> None:
        if isinstance(self.n_components, str):
            raise ValueError(
                f"n_components={self.n_components!r} was given; it follows from the law of a random sketch, which "
                f"{type(self).__name__} does not have. Give a number, or use GaussianProcessEmbedding."
            )

    @abstractmethod
    def _check_parameters(self) -> None:
        """Refuse parameters that only this estimator has and that make no sense."""

    def _n_embedded(self, n_samples: int) -> int:  # noqa: ARG002
        """Number of columns of the embedding."""
        return int(self.n_components)

    def _columns(self, n_samples: int) -> int:
        """Number of columns that the kernel will be multiplied by, for the estimate of memory."""
        return self._n_embedded(n_samples)

    @abstractmethod
    def _embed(self, kernel: HeatKernel) -> dict[str, Any]:
        """Fitted attributes: `embedding_`, `_coefficients` and what else the estimator keeps."""

    @abstractmethod
    def _at_powers(self, powers: list[float]) -> list[FloatArray]: ...

    def _place(self, kernel: HeatKernel, Z: FloatArray) -> FloatArray:
        """The embedding ``diag(w) S Z`` that belongs to coefficients ``Z = S^(t-1) M``."""
        Y = kernel.place(Z)
        self._refuse_collapse(Y, self.power)
        return Y

    def _refuse_collapse(self, Y: FloatArray, power: float) -> None:
        if not np.isfinite(Y).all() or not np.ptp(Y, axis=0).any():
            raise ValueError(
                f"at power={power} nothing but the constant is left of the heat kernel in {Y.dtype}: all points "
                "coincide. Either its nontrivial eigenvalues have decayed below the smallest number: use a smaller "
                "power or bandwidth, or float64; or a precomputed affinity has equal rows."
            )

    def _kernel_options(self) -> KernelOptions:
        return KernelOptions(**{field.name: getattr(self, field.name) for field in fields(KernelOptions)})

    def _check_common(self) -> None:
        check_power(self.power)
        if self.n_components != "auto":
            check_count(self.n_components, "n_components", "a positive integer or 'auto'")
        if self.device not in ("auto", "cpu"):
            raise ValueError(f"device={self.device!r} was given; this version computes on 'cpu' ('auto' is the same).")

    def _validate(self, X: Any, *, reset: bool) -> Any:
        X = from_user(X, self._kernel_options())
        with explained():
            X = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_min_samples=2 if reset else 1,
            )
        return tidy(X, self.metric)

    def _set_kernel(self, kernel: HeatKernel) -> None:
        self.kernel_ = kernel
        self.power_ = float(self.power)
        scaling = kernel.scaling
        assert scaling is not None
        self.bandwidth_ = kernel.bandwidth
        self.n_neighbors_ = getattr(kernel.affinity, "n_neighbors", None)
        self.n_iter_, self.scaling_residual_ = scaling.n_iter, scaling.residual

    @property
    def intrinsic_dimension_(self) -> float | None:
        """Estimate of the intrinsic dimension of the training points; None for a precomputed affinity."""
        check_is_fitted(self)
        affinity = self.kernel_.affinity
        return intrinsic_dimension(affinity.X, affinity.metric) if isinstance(affinity, GaussianAffinity) else None

    def _say_kernel(self, kernel: HeatKernel) -> None:
        scaling, affinity = kernel.scaling, kernel.affinity
        assert scaling is not None
        held = affinity.description if affinity is not None else "a given kernel"
        if isinstance(affinity, GaussianAffinity):
            held += f", bandwidth {np.median(np.asarray(affinity.epsilon)):.4g} ({kernel.bandwidth_rule})"
        balanced = f", row sums within {scaling.residual:.1e}" if scaling.residual else ""
        say(
            f"[{type(self).__name__}] {kernel.shape[0]} samples, {kernel.dtype}, {held}; {self.normalization} in "
            f"{scaling.n_iter} products{balanced}"
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "embedding_")

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


def _check_out(out: Any, n_samples: int, n_components: int) -> None:
    """Refuse an array that the embedding cannot be written to, before any work is done."""
    wanted = (n_samples, n_components)
    kinds = (np.dtype(np.float32), np.dtype(np.float64))
    if not isinstance(out, np.ndarray) or out.shape != wanted or out.dtype not in kinds or not out.flags.writeable:
        raise ValueError(
            f"out was given as {type(out).__name__} of shape {np.shape(out)}; it must be a writeable array of float32 "
            f"or float64 of shape {wanted}, for example numpy.lib.format.open_memmap(path, 'w+', 'float32', {wanted})."
        )


def _n_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def embedded_distances(Y: FloatArray, pairs: ArrayLike | None) -> FloatArray:
    """Distances between rows of `Y`: condensed for all pairs, or for the given ones."""
    distances: FloatArray
    scale = magnitude(Y)
    Y = Y.astype(np.float64) / scale
    if pairs is None:
        distances = scale * pdist(Y)
    else:
        chosen: IntArray = check_pairs(pairs, len(Y))
        distances = scale * np.linalg.norm(Y[chosen[:, 0]] - Y[chosen[:, 1]], axis=1)
    return distances
