"""What a fitted embedding can be asked: distances and how sure they are, distortion, scales, stability, diagnosis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._utils.progress import shown, track
from .._utils.registry import distributed_backend
from .._utils.threads import quiet_blas
from .._utils.typing import FloatArray
from ..analysis.diagnosis import Diagnosis, diagnose
from ..analysis.distances import check_level, embedded_distances
from ..analysis.distortion import ALL_PAIRS, QUANTILES, Distortion, kernel_distortion, unseen_distortion
from ..analysis.power import ChosenPower
from ..analysis.reference_sketch import Witness, call_witness
from ..analysis.scales import Scales, measure_scales
from ..analysis.stability import StabilityMap, stability_map
from ..analysis.support import NeighborSupport, neighbor_support
from ..kernel.affinity import GaussianAffinity
from ..kernel.bandwidth import intrinsic_dimension
from ..kernel.operator import HeatKernel
from ..kernel.options import check_count
from ..linalg.sketch import resolve_seed

# Entries of kernel rows of new points whose distortion is measured (128 MB, and a few times as much to diffuse them).
_ROW_ENTRIES = 1 << 24


class Answers:
    """Questions that every fitted embedding answers, from its kernel, its time and its coordinates."""

    # What every fitted embedding has.
    embedding_: Any

    @property
    def _Y(self) -> FloatArray:
        """The embedding as a NumPy array; a distributed one where the kernel is on a cluster."""
        Y: FloatArray = self.kernel_.collect(self.embedding_)
        return Y

    def _refuse_on_cluster(self, question: str) -> None:
        """Refuse what takes a search among all points in one place."""
        if not self.kernel_.in_memory:
            raise ValueError(
                f"{question} was asked of an embedding on a cluster; it compares all {self.kernel_.shape[0]} points in "
                "one place. Fit to a part of the data in memory, and ask that."
            )

    kernel_: HeatKernel
    n_components_: int
    power_: float
    power_choice_: ChosenPower | None
    verbose: bool
    _coefficients: FloatArray
    # What the estimator itself does.
    at_powers: Callable[[ArrayLike], FloatArray]
    _times: Callable[[ArrayLike], FloatArray]
    _validate: Callable[..., Any]

    @quiet_blas()
    def diffusion_distances(self, pairs: ArrayLike | None = None, *, interval: float | None = None) -> Any:
        """Distances in the embedding, and confidence intervals of the diffusion distances on request.

        Parameters
        ----------
        pairs : array-like of int, shape (m, 2), optional
            Pairs of training points; all pairs when left out, which must not be on a cluster.
        interval : float in (0, 1), optional
            Level of the confidence interval, such as 0.95. The law of a Gaussian sketch gives it exactly, for every
            pair. Where the embedding is one, it is its own; other embeddings have no such law, and a sketch that is
            independent of them, made when first asked for, gives the interval: a distance of the embedding outside of
            it is wrong. For signs the law is an approximation, good where many points share in a distance: their
            estimates have the same mean and no larger variance, but with few components and kernels of few neighbours
            another law. With ``trivial="drop"`` it is the distance without the trivial mode.

        Returns
        -------
        distances : ndarray of shape (m,)
            When `pairs` is None condensed, as :func:`scipy.spatial.distance.pdist` returns them.
        low, high : ndarrays of shape (m,)
            If `interval` is given.
        """
        check_is_fitted(self)
        if interval is None:
            return embedded_distances(self._Y, pairs)
        level = check_level(interval, "interval")
        return embedded_distances(self._Y, pairs), *self._interval(pairs, level)

    def _interval(self, pairs: ArrayLike | None, level: float) -> tuple[FloatArray, FloatArray]:
        return self._call_witness().interval(pairs, level)

    def _call_witness(self) -> Witness:
        if "_witness" not in self.__dict__:
            with shown(self.verbose):
                self._witness = call_witness(self.kernel_, self.power_, trivial=self._measures_trivial)
        return self._witness

    @property
    def _measures_trivial(self) -> bool:
        """Whether the distances in question contain the trivial mode: those of the kernel do."""
        return True

    def __getstate__(self) -> Any:
        # The witness can be called again, and the index of a frame on a cluster lies there: neither is pickled.
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {name: value for name, value in state.items() if name not in ("_witness", "_frame_index")}

    @quiet_blas()
    def unsupported_neighbors(self, n_neighbors: int = 15, *, interval: float = 0.95) -> NeighborSupport:
        """Which neighbours in the embedding are not neighbours by diffusion distance, as far as can be told.

        A sketch that is independent of the embedding gives an interval for each distance. Neighbours are unsupported
        if even its lower end exceeds twice the radius that is sure to hold as many true neighbours.

        Parameters
        ----------
        n_neighbors : int
        interval : float in (0, 1)
            Level of the intervals.

        Returns
        -------
        support : NeighborSupport
            With ``.indices`` and ``.supported``, both (n_samples, n_neighbors), ``.share`` of each point, and
            ``.plot()``.
        """
        check_is_fitted(self)
        level = check_level(interval, "interval")
        check_count(n_neighbors, "n_neighbors")
        self._refuse_on_cluster("unsupported_neighbors()")
        return neighbor_support(self._Y, self._call_witness(), n_neighbors, level)

    @quiet_blas()
    def stability(
        self,
        under: str = "data",
        *,
        n_repeats: int = 5,
        share: float = 0.8,
        n_neighbors: int = 15,
        random_state: int | None = 0,
    ) -> StabilityMap:
        """Where the embedding would change under another seed, or under resampled data.

        Parameters
        ----------
        under : {"data", "seed"}
            "data" fits to random parts of the data, with the bandwidth and the power that were found, and places all
            points; "seed" draws other random numbers for the same kernel.
        n_repeats : int
        share : float in (0, 1)
            Share of the points in each part.
        n_neighbors : int
            Neighbours that are compared.
        random_state : int or None

        Returns
        -------
        stability : StabilityMap
            With ``.kept`` and ``.moved`` of each point, and ``.plot()``.
        """
        check_is_fitted(self)
        check_count(n_repeats, "n_repeats")
        check_count(n_neighbors, "n_neighbors")
        check_level(share, "share")
        if under not in ("data", "seed"):
            raise ValueError(f"under={under!r} is not known; use 'data' or 'seed'.")
        self._refuse_on_cluster("stability()")
        seeds = np.random.default_rng(resolve_seed(random_state)).integers(2**31, size=n_repeats)
        again = self._on_a_part if under == "data" else self._drawn_again
        others = (again(np.random.default_rng(seed), share) for seed in seeds)
        with shown(self.verbose):
            return stability_map(self._Y, track(others, "repeating", n_repeats), under, n_neighbors)

    def _drawn_again(self, rng: np.random.Generator, share: float) -> FloatArray:  # noqa: ARG002
        """The embedding of the same kernel with another seed."""
        if not hasattr(self, "random_state") or not isinstance(getattr(self, "sketch", "named"), str):
            raise ValueError(f"this {type(self).__name__} has no random numbers to draw again; use under='data'.")
        other = self._repeated(random_state=int(rng.integers(2**31)))
        embedding: FloatArray = other._embed(self.kernel_, self.power_)["embedding_"]
        return embedding

    def _on_a_part(self, rng: np.random.Generator, share: float) -> FloatArray:
        """All points, placed by an embedding that was fitted to a part of them."""
        affinity = self.kernel_.affinity
        if not isinstance(affinity, GaussianAffinity):
            raise ValueError(
                "under='data' was given for a precomputed affinity, whose vertices may lose all neighbours in a part "
                "of the data; use under='seed'."
            )
        for name in ("sketch", "init"):
            if isinstance(getattr(self, name, "named"), np.ndarray):
                raise ValueError(f"{name} was given as an array for all samples, which does not fit a part of them.")
        X, n = affinity.X, affinity.n_samples
        part: Any = np.sort(rng.choice(n, max(2, round(share * n)), replace=False))
        rule = self.kernel_.bandwidth_rule if np.ndim(affinity.epsilon) else float(affinity.epsilon)
        seeded = {"random_state": self.seed_} if hasattr(self, "seed_") else {}
        other = self._repeated(bandwidth=rule, n_components=min(self.n_components_, len(part) - 1), **seeded)
        if affinity.metric.precomputed:
            part, X = X[part][:, part], X[:, part]
        else:
            part = X[part]
        placed: FloatArray = other.fit(part).transform(X)
        return placed

    def _repeated(self, **parameters: Any) -> Any:
        """An unfitted estimator with the choices of this one."""
        other: Any = clone(self)
        other.set_params(**{"power": self.power_, "n_components": self.n_components_, "verbose": False} | parameters)
        return other.set_output(transform="default")

    @quiet_blas()
    def scales(self, powers: ArrayLike | None = None) -> Scales:
        """The whole scale axis: entropy, dimensions and distortion of the embedding at each diffusion time.

        Parameters
        ----------
        powers : array-like of float, optional
            By default 1, 2, 4, ... as far as anything is left of the kernel, and the power of this embedding.

        Returns
        -------
        scales : Scales
            With an array for each quantity, and ``.plot()``.
        """
        check_is_fitted(self)
        times = None if powers is None else self._times(powers)
        with shown(self.verbose):
            return measure_scales(self.kernel_, self.power_, self.at_powers, times)

    @quiet_blas()
    def diagnose(self) -> Diagnosis:
        """What looks wrong with this embedding, in words: each finding with its figure and a remedy.

        Returns
        -------
        diagnosis : Diagnosis
            A tuple of findings, empty where nothing looks wrong; ``print`` shows it.
        """
        check_is_fitted(self)
        with shown(self.verbose):
            return diagnose(self.kernel_, self.power_, self.n_components_, self.power_choice_)

    @quiet_blas()
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
            self._refuse_on_cluster("the distortion of new points")
            elsewhere = distributed_backend(X)
            X = X if elsewhere is None else elsewhere.gathered(X)
            return self._distortion_of(X, quantiles, random_state)
        return kernel_distortion(
            self._Y,
            self.kernel_,
            self.power_,
            quantiles=quantiles,
            exhaustive=exhaustive,
            random_state=random_state,
        )

    def _distortion_of(self, X: Any, quantiles: tuple[float, ...], random_state: int | None) -> Distortion:
        X = self._validate(X, reset=False)
        m, n = X.shape[0], self._Y.shape[0]
        if m < 2:
            raise ValueError(f"{m} new point was given; the distortion is a ratio of distances, so give at least 2.")
        size = max(2, min(ALL_PAIRS, _ROW_ENTRIES // n))
        if m > size:
            X = X[np.sort(np.random.default_rng(resolve_seed(random_state)).choice(m, size, replace=False))]
        Y = self.kernel_.at_new_points(X, self._coefficients)
        found = unseen_distortion(Y, self.kernel_, self.power_, X, quantiles=quantiles)
        return found if m <= size else replace(found, exhaustive=False)

    @property
    @quiet_blas()
    def intrinsic_dimension_(self) -> float | None:
        """Estimate of the intrinsic dimension of the training points; None for a precomputed affinity."""
        check_is_fitted(self)
        affinity = self.kernel_.affinity
        if not isinstance(affinity, GaussianAffinity):
            return None
        return intrinsic_dimension(self.kernel_.points, affinity.metric)
