"""Options and input of a kernel, checked before any work: errors name what was given, what is accepted and a remedy."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import _num_samples

from .._utils.array import to_numpy
from .._utils.registry import DEVICES, distributed_backend
from .._utils.tables import checked, table
from .._utils.text import did_you_mean
from .._utils.typing import FloatArray
from .._utils.warn import warn
from ..linalg.metrics import Metric
from .affinity import APART, ROUNDING
from .bandwidth import AUTO_RULE, BANDWIDTH_RULES
from .graphs import adjacency, check_affinity, compact, is_graph, node_names, precomputed_kind
from .normalize import NORMALIZATIONS

__all__ = [
    "EXPERT",
    "SHARED",
    "KernelOptions",
    "check_choice",
    "check_count",
    "check_distances",
    "check_masses",
    "check_out",
    "check_params",
    "check_points",
    "from_user",
    "is_number",
    "kernel_options",
    "n_rows",
    "sample_names",
    "tidy",
]

# How a GPU forms the exponents of a float32 kernel.
PRECISIONS = ("auto", "halves", "mixed", "split", "float32")
# Distances up to this many units in the last place of the largest are rounding errors, as of one minus a cosine.
_LAST_PLACES = 4.0
# Options that estimators take in one dictionary, `kernel_params`.
EXPERT = ("bandwidth_neighbor", "cutoff", "diagonal", "max_iter", "precision", "tol")


@dataclass(frozen=True)
class KernelOptions:
    """How the heat kernel is made from data; the parameters of :func:`heatsketch.heat_kernel`, checked."""

    bandwidth: float | str | FloatArray = "auto"
    normalization: str = "bistochastic"
    alpha: float = 1.0
    affinity: str = "gaussian"
    metric: str | Callable[..., float] = "euclidean"
    metric_params: dict[str, Any] | None = None
    bandwidth_neighbor: int | None = None
    n_neighbors: int | str | None = "auto"
    cutoff: float | None = None
    diagonal: str = "auto"
    tol: float = 1e-8
    max_iter: int = 1000
    device: str = "auto"
    precision: str = "auto"

    def __post_init__(self) -> None:
        check_choice(self.affinity, "affinity", ("gaussian", "precomputed"))
        check_choice(self.diagonal, "diagonal", ("auto", "keep", "zero"))
        check_choice(self.normalization, "normalization", tuple(NORMALIZATIONS))
        check_choice(self.precision, "precision", PRECISIONS)
        object.__setattr__(self, "bandwidth", _check_bandwidth(self.bandwidth))
        if not is_number(self.alpha) or not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha={self.alpha!r} was given; the density exponent must be a number between 0 and 1.")
        _check_between(self.tol, "tol", 0, np.inf, "a positive number")
        check_count(self.max_iter, "max_iter")
        if self.bandwidth_neighbor is not None:
            check_count(self.bandwidth_neighbor, "bandwidth_neighbor", "a positive integer, or None")
        if self.n_neighbors not in (None, "auto"):
            check_count(self.n_neighbors, "n_neighbors", "None for every pair, a positive integer, or 'auto'")
        if self.cutoff is not None:
            _check_between(self.cutoff, "cutoff", 0, 1, "a number between 0 and 1, or None")
            if self.affinity == "precomputed" or self.n_neighbors not in (None, "auto"):
                raise ValueError(
                    f"cutoff={self.cutoff!r} was given with affinity={self.affinity!r} and n_neighbors="
                    f"{self.n_neighbors!r}; leave n_neighbors at 'auto' and affinity at 'gaussian'."
                )
        if isinstance(self.metric, str) and self.metric != "euclidean":
            from sklearn.neighbors import VALID_METRICS  # noqa: PLC0415

            check_choice(self.metric, "metric", VALID_METRICS["brute"])
        if self.metric_params is not None and not isinstance(self.metric_params, dict):
            raise ValueError(f"metric_params={self.metric_params!r} was given; it must be a dict, or None.")
        if self.affinity == "precomputed" and self.metric == "precomputed":
            raise ValueError(
                "affinity and metric are both 'precomputed'; say which of the two X holds: affinities "
                "(affinity='precomputed') or distances (metric='precomputed')."
            )
        if not isinstance(self.device, str) or not re.fullmatch(r"auto|cpu|cuda(:\d+)?|torch-cpu", self.device):
            raise ValueError(
                f"device={self.device!r} was given; it must be one of {DEVICES}, or the number of a GPU as in 'cuda:1'."
            )

    @property
    def measure(self) -> Metric:
        """The metric with its parameters."""
        return Metric(self.metric, self.metric_params or {})

    @property
    def precomputed(self) -> bool:
        """Whether X holds affinities or distances instead of points."""
        return "precomputed" in (self.affinity, self.metric)

    @property
    def bandwidth_rule(self) -> str:
        """The rule of the bandwidth, never "auto"; "given" for a number, and "self-tuning" for given local scales."""
        if not isinstance(self.bandwidth, str):
            return "self-tuning" if np.ndim(self.bandwidth) else "given"
        return AUTO_RULE if self.bandwidth == "auto" else self.bandwidth

    def given_bandwidth(self, n_samples: int) -> Any:
        """The bandwidth that was given: a number, or squared local scales of shape (n_samples,); None for a rule."""
        given: Any = self.bandwidth
        if isinstance(given, str):
            return None
        if np.ndim(given) and len(given) != n_samples:
            raise ValueError(
                f"bandwidth was given as {len(given)} local scales for {n_samples} samples; give one for each sample, "
                f"such as bandwidth_ of a fit to the same data, a number, or one of {BANDWIDTH_RULES}."
            )
        return np.asarray(given, dtype=np.float64) if np.ndim(given) else float(given)


# Parameters of every estimator that say how its kernel is made.
SHARED = (*(field.name for field in fields(KernelOptions) if field.name not in EXPERT), "kernel_params")


def kernel_options(estimator: Any) -> KernelOptions:
    """The options of an estimator's kernel: its parameters, and those in its dictionary `kernel_params`."""
    expert = check_params(estimator.kernel_params, "kernel_params", EXPERT)
    shared = {name: getattr(estimator, name) for name in SHARED if name != "kernel_params"}
    return KernelOptions(**shared, **expert)


def check_params(params: Any, name: str, known: Sequence[str]) -> dict[str, Any]:
    """A dictionary of further parameters, or None for an empty one; unknown keys raise ValueError."""
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        raise ValueError(f"{name}={params!r} was given; it must be None or a dict with keys among {tuple(known)}.")
    if unknown := [key for key in params if key not in known]:
        raise ValueError(f"{name} was given with the unknown keys {unknown}; the known ones are {tuple(known)}.")
    return dict(params)


def check_choice(value: Any, name: str, known: Sequence[str]) -> None:
    """Raise ValueError if `value` is not one of the known ones."""
    if value not in known:
        raise ValueError(f"{name}={value!r} is not known; use one of {tuple(known)}.{did_you_mean(value, known)}")


def is_number(value: Any, kind: type = Real) -> bool:
    """Whether `value` is a number of the given kind, and not a boolean."""
    return isinstance(value, kind) and not isinstance(value, bool)


def check_count(value: Any, name: str, accepted: str = "a positive integer", least: int = 1) -> int:
    """Raise ValueError if `value` is not an integer of at least `least`."""
    if not is_number(value, Integral) or value < least:
        raise ValueError(f"{name}={value!r} was given; it must be {accepted}.")
    return int(value)


def _check_between(value: Any, name: str, low: float, high: float, accepted: str) -> None:
    """Raise ValueError if `value` is not a number strictly between `low` and `high`."""
    if not is_number(value) or not low < value < high:
        raise ValueError(f"{name}={value!r} was given; it must be {accepted}.")


def _check_bandwidth(value: Any) -> Any:
    """Raise ValueError if `value` is no bandwidth; squared local scales are returned as an array of float64."""
    if isinstance(value, str):
        check_choice(value, "bandwidth", BANDWIDTH_RULES)
        return value
    if not np.ndim(value):
        _check_between(value, "bandwidth", 0, np.inf, f"a positive number, or one of {BANDWIDTH_RULES}")
        return value
    scales = to_numpy(value)
    if scales.ndim != 1 or scales.dtype.kind not in "fiu" or not ((scales > 0) & np.isfinite(scales)).all():
        raise ValueError(
            f"bandwidth was given as an array of {scales.dtype} and shape {scales.shape}; local scales must be "
            "positive and finite, one for each sample, such as bandwidth_ of a fitted estimator. Otherwise give a "
            f"number, or one of {BANDWIDTH_RULES}."
        )
    return scales.astype(np.float64)


def check_points(X: Any, options: KernelOptions) -> Any:
    """Check the input of a kernel: points, distances, affinities or a graph."""
    return tidy(checked(from_user(X, options), "heat_kernel", precomputed=options.precomputed), options)


def from_user(X: Any, options: KernelOptions) -> Any:
    """Input in a form that scikit-learn checks: graphs as matrices, tensors as arrays."""
    if distributed_backend(X) is not None:
        raise TypeError(
            f"a {type(X).__name__} of {type(X).__module__.partition('.')[0].capitalize()} was given where data in "
            "memory are needed; give X.compute(), or its shape. Estimators and heat_kernel accept it."
        )
    if is_graph(X):
        if options.affinity != "precomputed":
            raise ValueError(f"a graph was given with affinity={options.affinity!r}; pass affinity='precomputed'.")
        return adjacency(X)
    X = table(X)
    if options.precomputed and getattr(X, "ndim", 2) == 1:
        raise ValueError(
            f"a vector of length {len(X)} was given as precomputed matrix. Reshape your data: condensed distances "
            "become square with scipy.spatial.distance.squareform."
        )
    return X


def tidy(X: Any, options: KernelOptions, *, training: bool = True) -> Any:
    """Checked input in the form that kernels are made from: sparse input canonical, with small indices.

    Training input that is precomputed is kept sparse if it mostly holds zeros; a warning is given for points that look
    precomputed.
    """
    if sparse.issparse(X):
        if options.metric == "precomputed":
            raise ValueError(
                "sparse X was given with metric='precomputed'; an entry that is not stored would be a distance of 0. "
                "Give dense distances, or affinities with affinity='precomputed'."
            )
        # From its parts, in the smallest index dtype: whether the rows of X are sorted may be remembered from earlier.
        X = sparse.csr_array((X.data, X.indices, X.indptr), shape=X.shape)
        X = X if X.has_canonical_format else X.copy()
        X.sum_duplicates()
    if options.precomputed and X.shape[0] and X.min() < 0:
        kind = "affinities" if options.affinity == "precomputed" else "distances"
        raise ValueError(
            f"Negative values in data: the smallest entry of X is {X.min():.3g}, and precomputed {kind} must not be "
            "negative."
        )
    if training and not options.precomputed:
        _warn_if_precomputed(X)
    return compact(X) if training and options.affinity == "precomputed" else X


def _warn_if_precomputed(X: Any) -> None:
    """Warn about points that look like distances or a graph."""
    kind = precomputed_kind(X)
    if kind is not None:
        what, option = {
            "affinities": ("a graph or a matrix of affinities", "affinity='precomputed'"),
            "distances": ("a matrix of distances", "metric='precomputed'"),
        }[kind]
        warn(f"X looks like {what}, and its rows are taken as points; if it is one, give {option}.")


def check_distances(D: FloatArray) -> FloatArray:
    """Check square precomputed distances; return them symmetric, with zeros in place of rounding errors.

    The diagonal shows how large these are. (A fixed fraction of the largest distance could exceed the distances within
    clusters that are far apart.)
    """
    D = check_affinity(D, name="X (precomputed distances)")
    worst, most = np.abs(np.diagonal(D)).max(), ROUNDING[D.dtype] * D.max()
    if worst > most:
        raise ValueError(
            f"X holds precomputed distances, but its diagonal is not zero (up to {worst:.3g}); if these are "
            "affinities, pass affinity='precomputed' and leave metric at its default."
        )
    rounding = min(most, max(APART * worst, _LAST_PLACES * np.finfo(D.dtype).eps * D.max()))
    return np.where(rounding >= D, D.dtype.type(0), D)


def check_masses(sample_weight: Any, n_samples: int, *, zeros: bool = False) -> Any:
    """Masses of the samples, (n_samples,), in float64, or None; a lazy array of a cluster stays one.

    With `zeros` some may be 0.
    """
    if sample_weight is None:
        return None
    masses = sample_weight if distributed_backend(sample_weight) is not None else to_numpy(sample_weight)
    if masses.shape != (n_samples,) or masses.dtype.kind not in "biuf":
        raise ValueError(
            f"sample_weight was given as an array of {masses.dtype} and shape {masses.shape}; it must hold one number "
            f"for each of the {n_samples} samples."
        )
    masses = masses.astype(np.float64)
    positive = (masses > 1e-30) & (masses < 1e30)  # whose roots and reciprocals float32 holds
    accepted = positive | (masses == 0) if zeros else positive
    wrong, n_positive = int((~accepted).sum()), int(positive.sum())
    if wrong:
        raise ValueError(
            f"{wrong} of {n_samples} sample weights are not {'0 or ' if zeros else ''}between 1e-30 and 1e30. Leave "
            "these samples out and place them with transform; divide weights that are very large or small by their "
            "mean."
        )
    if n_positive < min(n_samples, 2):
        raise ValueError(
            f"{n_positive} of {n_samples} sample weights are positive, and the others are zero; at least two samples "
            "need a positive weight."
        )
    return masses


def sample_names(X: Any) -> Any:
    """Names of the rows of `X`: a list for a graph, the index of a pandas frame unless it is the default; else None."""
    if is_graph(X):
        return node_names(X)
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(X, pandas.DataFrame):
        return None
    is_default = isinstance(X.index, pandas.RangeIndex) and X.index.equals(pandas.RangeIndex(len(X)))
    return None if is_default and X.index.name is None else X.index


def n_rows(X: Any) -> int:
    """Number of samples of input that has not been checked."""
    return len(node_names(X)) if is_graph(X) else int(_num_samples(X))


def check_out(out: Any, n_samples: int, n_components: int) -> None:
    """Raise ValueError if the embedding cannot be written to `out`."""
    wanted = (n_samples, n_components)
    kinds = (np.dtype(np.float32), np.dtype(np.float64))
    if not isinstance(out, np.ndarray) or out.shape != wanted or out.dtype not in kinds or not out.flags.writeable:
        raise ValueError(
            f"out was given as {type(out).__name__} of shape {np.shape(out)}; it must be a writeable array of float32 "
            f"or float64 of shape {wanted}, for example numpy.lib.format.open_memmap(path, 'w+', 'float32', {wanted})."
        )
