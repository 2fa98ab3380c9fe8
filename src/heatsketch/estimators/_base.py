"""What all embeddings share: validation, the kernel, new points, distances and distortion."""

from __future__ import annotations

import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from .._utils.array import array_namespace, to_numpy
from .._utils.memory import available_memory, size_in_words
from .._utils.progress import say, shown
from .._utils.registry import as_given, computing, device_for, distributed_backend, find_device
from .._utils.tables import explained
from .._utils.threads import quiet_blas
from .._utils.typing import FloatArray
from ..analysis.distances import check_level
from ..analysis.distortion import distance_errors
from ..analysis.power import POWER_RULES, ChosenPower, tuned_kernel
from ..kernel.build import build_heat_kernel
from ..kernel.costs import predict
from ..kernel.operator import HeatKernel
from ..kernel.options import KernelOptions, check_count, check_out, from_user, n_rows, sample_names, tidy
from ..linalg.diffusion import check_power
from ._answers import Answers
from ._names import Names
from ._summary import Summary
from ._transaction import wholly

# Share of the pairs whose distances must be as exact as is asked for.
_CONFIDENCE = 0.95
# Adding half as many components should lower an error by more than this, or it will not be reached.
_STALLED = 0.97
# Arrays as large as the embedding that are there while components are added.
_COPIES = 6


class HeatEmbedding(
    Names, Summary, Answers, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, metaclass=ABCMeta
):
    """An embedding ``Y = diag(w) S^t M`` of the training points, which new points join by their kernel rows.

    A subclass owes `_check_parameters`, `_embed`, `_at_powers`, `_add` and `_most_components`.
    """

    # The parameters that every embedding has; subclasses list them in their constructors.
    n_components: int | str
    power: float | str
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
    precision: str
    tol: float
    max_iter: int
    verbose: bool

    @wholly
    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Embed the rows of `X`; after an error or an interrupt, the estimator is as it was.

        Parameters
        ----------
        X : array-like, tensor, sparse matrix, Dask array or frame, or networkx or igraph graph
            Points of shape (n_samples, n_features); a square matrix or a graph if affinity is "precomputed", square
            distances if metric is "precomputed". For a tensor of PyTorch the embedding is one too, and lies where X
            does; for a Dask array or frame it is a Dask array, computed on the cluster that is current.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        elsewhere = distributed_backend(X)
        if elsewhere is not None:
            return elsewhere.fit(self, X)  # type: ignore[no-any-return]
        options = replace(self._kernel_options(), device=device_for(X, self.device))
        self._check_common()
        self._check_parameters()
        find_device("cpu" if options.device == "auto" else options.device)  # refuses one that is not there
        names, given = sample_names(X), X
        X = self._validate(X, reset=True)
        width, computed_in = self._columns(X.shape[0]), self._computed_in(X.dtype)
        held = {"sparse_points": issparse(X), "entries": getattr(X, "nnz", None)}
        plan = predict(X.shape, computed_in, options, n_components=width, **held)
        with shown(self.verbose), plan.within_memory(), computing(), quiet_blas():
            self._fit_kernel(X, options)
        self.embedding_ = as_given(self.embedding_, given)
        self._sample_names = names
        return self

    def _computed_in(self, dtype: Any) -> Any:  # powers below 1 reach eigenvalues that float32 does not resolve
        return np.float64 if not isinstance(self.power, str) and self.power < 1 else dtype

    def _fit_kernel(self, X: Any, options: KernelOptions) -> None:
        """Make the kernel of checked input, choose its time, and embed."""
        if isinstance(self.power, str):
            kernel, chosen = tuned_kernel(X, options, self.power, self._computed_in(X.dtype))
            power = chosen.power
        else:
            kernel, chosen, power = build_heat_kernel(X, options, self._computed_in(X.dtype)), None, float(self.power)
        self._say_kernel(kernel, power, chosen)
        self._adopt(kernel, power, chosen, X.dtype)

    def _adopt(self, kernel: HeatKernel, power: float, chosen: ChosenPower | None, dtype: Any) -> None:
        """Embed the points of a kernel that is there, at a time that is known."""
        fitted = self._embed(kernel, power)
        self.__dict__.pop("_witness", None)
        self._set_kernel(kernel)
        self.power_, self.power_choice_ = power, chosen
        for name, value in fitted.items():
            setattr(self, name, value)
        self.embedding_ = kernel.hand_out(self.embedding_).astype(dtype, copy=False)

    @wholly
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
            After ``set_output(transform="pandas")`` a frame, indexed by the nodes of a graph or as `X` is.
        """
        if out is not None:
            elsewhere = distributed_backend(X)
            if elsewhere is not None:
                elsewhere.refuse_out(out)
            self._check_common()
            self._check_parameters()
            check_out(out, n_rows(X), self._n_embedded(n_rows(X)))
        self.fit(X, y)
        if out is not None:
            out[:] = to_numpy(self.embedding_)
            self.embedding_ = out
        return self._handed_out(self.embedding_)

    def transform(self, X: Any, *, out: FloatArray | None = None) -> Any:
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
        elsewhere = distributed_backend(X)
        if elsewhere is not None:
            return elsewhere.transform(self, X, out)
        given, X = X, self._validate(X, reset=False)
        if out is None:
            out = np.empty((X.shape[0], self.n_components_), dtype=self._Y.dtype)
        else:
            check_out(out, X.shape[0], self.n_components_)
        with shown(self.verbose), quiet_blas():
            placed = as_given(self.kernel_.at_new_points(X, self._coefficients, out), given)
        return self._handed_out(placed)

    @computing()
    @quiet_blas()
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
        times = self._times(powers)
        blocks = self._at_powers(times.tolist())
        for t, Y in zip(times, blocks, strict=True):
            self._refuse_collapse(Y, t)
        scales = [self.kernel_.hand_out(Y).astype(self._Y.dtype, copy=False) for Y in blocks]
        stacked: FloatArray = as_given(np.stack(scales), self.embedding_)
        return stacked

    def _times(self, powers: ArrayLike) -> FloatArray:
        """Diffusion times, checked."""
        times = np.asarray(powers, dtype=np.float64)
        if times.ndim != 1 or not len(times):
            raise ValueError(f"powers of shape {times.shape} were given; give a list of one or more diffusion times.")
        for t in times:
            check_power(t)
        return times

    @wholly
    def add_components(self, n: int | None = None, *, distance_error: float | None = None) -> Self:
        """Sharpen a fitted embedding by `n` components, or by as many as a wanted error of distances takes.

        A random sketch gets more columns and becomes that of a fit with so many from the start; diffusion maps get the
        next eigenvectors, and the components that are there stay; HeatSketch optimises all components anew.

        Parameters
        ----------
        n : int, optional
        distance_error : float in (0, 1), optional
            Give it instead of `n`, such as 0.05: components are added until a distance is within that fraction of the
            diffusion distance with probability .95. For a random sketch this follows from its law, for all pairs at
            once where `simultaneous` is set; for other embeddings it is measured, as the share of pairs of 256 random
            points. What was reached is kept in `distance_error_`.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if (n is None) == (distance_error is None):
            raise ValueError(
                f"n={n!r} and distance_error={distance_error!r} were given; give one of the two: a number of "
                "components, or the error to be reached."
            )
        given, self.embedding_ = self.embedding_, self._Y
        with shown(self.verbose), quiet_blas():
            if distance_error is None:
                self._add(check_count(n, "n"))
            else:
                self.distance_error_ = self._add_until(check_level(distance_error, "distance_error"))
                say(
                    f"[{type(self).__name__}] {self.n_components_} components: distances within "
                    f"{self.distance_error_:.3g} of themselves"
                )
        self.embedding_ = as_given(self.kernel_.hand_out(self.embedding_), given)
        return self

    def _add_until(self, wanted: float) -> float:
        """Add components until the measured error is as wanted, or there are none left to add; the error reached."""
        errors = distance_errors(self.kernel_, self.power_, trivial=self._measures_trivial)
        before = np.inf
        while True:
            reached = float(np.quantile(errors(self._Y), _CONFIDENCE))
            if reached <= wanted:
                return reached
            more = min((self.n_components_ + 1) // 2, self._most_components() - self.n_components_)
            if more < 1 or reached > _STALLED * before:
                warnings.warn(
                    f"distance_error={wanted:g} was asked for, and {reached:.3g} is reached with {self.n_components_} "
                    "components; more would not bring it much nearer, or take too long. A GaussianProcessEmbedding "
                    "with n_init=1 reaches any error.",
                    ConvergenceWarning,
                    stacklevel=5,
                )
                return reached
            self._require_memory(more)
            self._add(more)
            before = reached

    def _require_memory(self, more: int) -> None:
        """Refuse components that memory will not hold, before any is made; what workers have is not known here."""
        if not self.kernel_.in_memory:
            return
        size = _COPIES * self.embedding_.shape[0] * (self.n_components_ + more) * self.kernel_.dtype.itemsize
        if size > available_memory():
            raise MemoryError(
                f"{self.n_components_ + more} components take about {size_in_words(size)}, and "
                f"{size_in_words(available_memory())} are available; ask for a larger distance_error, or take leading "
                "directions exactly (n_exact='auto')."
            )

    @abstractmethod
    def _add(self, n: int) -> None:
        """Add n components."""

    @abstractmethod
    def _most_components(self) -> int:
        """The most components that the fitted embedding can have."""

    def _refuse_auto_components(self) -> None:
        if isinstance(self.n_components, str):
            law = f"the law of a random sketch, which {type(self).__name__} does not have; give a number, or use"
            raise ValueError(f"n_components={self.n_components!r} follows from {law} GaussianProcessEmbedding.")

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
    def _embed(self, kernel: HeatKernel, power: float) -> dict[str, Any]:
        """Fitted attributes: `embedding_`, `_coefficients` and what else the estimator keeps."""

    @abstractmethod
    def _at_powers(self, powers: list[float]) -> list[FloatArray]: ...

    def _place(self, kernel: HeatKernel, Z: Any, power: float) -> FloatArray:
        """The embedding ``diag(w) S Z`` that belongs to coefficients ``Z = S^(t-1) M``."""
        Y: FloatArray = kernel.collect(kernel.place(Z))
        self._refuse_collapse(Y, power)
        return Y

    def _refuse_collapse(self, Y: Any, power: float) -> None:
        xp = array_namespace(Y)
        ranges = to_numpy(xp.max(Y, axis=0) - xp.min(Y, axis=0))
        # Numbers below the smallest normal one lose digits.
        if not xp.all(xp.isfinite(Y)) or ranges.max(initial=0.0) < np.finfo(ranges.dtype).tiny:
            raise ValueError(
                f"at power={power} nothing but the constant is left of the heat kernel in {ranges.dtype}: all points "
                "coincide. Either its nontrivial eigenvalues have decayed below the smallest number: use a smaller "
                "power or bandwidth, or float64; or a precomputed affinity has equal rows."
            )

    def _kernel_options(self) -> KernelOptions:
        return KernelOptions(**{field.name: getattr(self, field.name) for field in fields(KernelOptions)})

    def _check_common(self) -> None:
        self._check_power()
        if self.n_components != "auto":
            check_count(self.n_components, "n_components", "a positive integer or 'auto'")

    def _check_power(self) -> None:
        if not isinstance(self.power, str):
            check_power(self.power)
        elif self.power not in POWER_RULES:
            raise ValueError(
                f"power={self.power!r} is not the name of a rule; use a positive number or one of {POWER_RULES}."
            )
        elif self.power == "paths" and self.affinity == "precomputed":
            raise ValueError(
                "power='paths' was given with affinity='precomputed'; paths are measured between points, of which an "
                "affinity tells nothing. Use power='entropy', or 'auto', which is the same here."
            )

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
        scaling = kernel.scaling
        assert scaling is not None
        self.bandwidth_ = kernel.bandwidth
        self.n_neighbors_ = getattr(kernel.affinity, "n_neighbors", None)
        self.n_iter_, self.scaling_residual_ = scaling.n_iter, scaling.residual

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
