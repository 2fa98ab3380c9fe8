"""Fitted embeddings in files: saved without pickle, so that loading one that nobody vouches for runs nothing of it.

A model file is a document of :mod:`heatsketch.io.storage` with these entries:

==============  ======================================================================================
``format``      "heatsketch model"
``version``     of the format: 1
``heatsketch``  the version that wrote it
``estimator``   "GaussianProcessEmbedding", "DiffusionMaps" or "HeatSketch"
``parameters``  of its constructor
``kernel``      ``X`` (points, or the given matrix), ``dtype``, ``bandwidth``, ``rule``, ``n_neighbors``,
                and ``scaling``, what the normalisation found
``fitted``      its other attributes
==============  ======================================================================================

The neighbours of a sparse kernel are not in the file: they are found again when it is loaded.
"""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from .._utils.array import to_numpy
from .._utils.registry import backend_of, find_device
from .._version import __version__
from ..analysis.distortion import Distortion
from ..analysis.power import ChosenPower
from ..estimators import ESTIMATORS
from ..kernel.affinity import GaussianAffinity
from ..kernel.build import build_affinity
from ..kernel.normalize import Scaling
from ..kernel.operator import HeatKernel
from ..kernel.options import KernelOptions
from ..kernel.precomputed import PrecomputedAffinity
from ..linalg.sketch import ArraySketch, ColumnSketch, GaussianSketch, HashedRademacherSketch, RademacherSketch
from ..optimize.solver import Round
from .storage import read_document, write_document
from .untrusted import brief

__all__ = ["load_model", "save_model"]

_FORMAT, _VERSION = "heatsketch model", 1
# What a model may consist of, beside numbers, words and arrays.
_RECORDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        ArraySketch,
        ChosenPower,
        ColumnSketch,
        Distortion,
        GaussianSketch,
        HashedRademacherSketch,
        RademacherSketch,
        Round,
        Scaling,
    )
}
# What follows from the kernel, or can be made again.
_DERIVED = {"kernel_", "_witness", "_frame_index", "bandwidth_", "n_neighbors_", "n_iter_", "scaling_residual_"}


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a fitted embedding to a file, whole or not at all.

    Parameters
    ----------
    model : fitted GaussianProcessEmbedding, DiffusionMaps or HeatSketch
        A callback is left out, and a random state that is a generator is replaced by the seed that it drew. A metric
        that is a function is refused, and so are nodes of a graph that are neither words, numbers nor tuples of these.
    path : path-like
        By convention it ends in ``.heatsketch``.

    See Also
    --------
    load_model : Load it again.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import heatsketch as hs
    >>> X = hs.datasets.circle(100, random_state=0)
    >>> model = hs.HeatSketch(bandwidth=0.25, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     hs.save_model(model, Path(folder) / "circle.heatsketch")
    ...     loaded = hs.load_model(Path(folder) / "circle.heatsketch")
    >>> bool(np.array_equal(loaded.transform(X[:5]), model.transform(X[:5])))
    True
    """
    name = next((name for name, kind in ESTIMATORS.items() if type(model) is kind), None)
    if name is None:
        raise ValueError(f"a {type(model).__name__} was given; what can be saved is a fitted {', '.join(ESTIMATORS)}.")
    check_is_fitted(model)
    if not model.kernel_.in_memory:
        raise ValueError(
            f"this {name} lies on a cluster, and a model file holds all of its data; store its embedding_ instead "
            "(embedding_.to_zarr(...)), or fit to a part of the data in memory and save that."
        )
    parameters = {key: _in_memory(value) for key, value in model.get_params(deep=False).items()}
    if callable(model.metric):
        raise ValueError(
            f"metric={model.metric!r} is a function, which a model file does not hold; name a metric of scikit-learn, "
            "give distances (metric='precomputed'), or pickle the estimator where you trust the reader."
        )
    if "callback" in parameters:
        parameters["callback"] = None
    if not isinstance(parameters.get("random_state"), (int, type(None))):
        parameters["random_state"] = model.seed_
    document: dict[str, Any] = {
        "format": _FORMAT,
        "version": _VERSION,
        "heatsketch": __version__,
        "estimator": name,
        "parameters": parameters,
        "kernel": _kernel_entries(model.kernel_),
        "fitted": {
            key: _in_memory(value) for key, value in vars(model).items() if key not in parameters.keys() | _DERIVED
        },
    }
    document["fitted"]["_sample_names"] = _as_stored(model._sample_names)
    write_document(Path(path), document, _RECORDS)


def _in_memory(value: Any) -> Any:
    """An array of a backend as one of NumPy; anything else as it is."""
    return value if backend_of(value) is None else to_numpy(value)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Load a fitted embedding that `save_model` wrote.

    The file is data: nothing in it is run, and names of kinds that heatsketch does not store are refused. A kernel that
    keeps only some neighbours finds them again, which takes as long as in the fit.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    model : GaussianProcessEmbedding, DiffusionMaps or HeatSketch
        Which embeds new points as the model that was saved, to the last bit in the same version of heatsketch.

    Raises
    ------
    ValueError
        If the file is damaged, no model, or of a later version.
    """
    document = read_document(Path(path), _RECORDS)
    if not _says(document, "format", _FORMAT):
        raise ValueError(f"{path} is not a model of heatsketch; save one with heatsketch.save_model(model, path).")
    if not _says(document, "version", _VERSION):
        raise ValueError(
            f"{path} has version {brief(repr(document.get('version')))} of the format, written by heatsketch "
            f"{brief(str(document.get('heatsketch')))}; this is heatsketch {__version__}, which reads version "
            f"{_VERSION}. Install a later heatsketch."
        )
    try:
        return _restored(document)
    except (ImportError, OSError, MemoryError):  # of this machine
        raise
    except Exception as error:  # whatever is built of what does not belong together
        raise ValueError(f"{path} is damaged: {brief(str(error))}") from error


def _says(document: dict[str, Any], name: str, value: str | int) -> bool:
    """Whether an entry is this value, and not an array, say, which has no answer to that."""
    found = document.get(name)
    return type(found) is type(value) and found == value


def _restored(document: dict[str, Any]) -> Any:
    kind = ESTIMATORS.get(str(document.get("estimator")))
    if kind is None:
        raise ValueError(f"it holds a {document.get('estimator')!r}")
    model = kind(**document["parameters"])
    kernel, fitted = _restored_kernel(document["kernel"], model._kernel_options()), document["fitted"]
    _check_fitted(kind, kernel, fitted)
    model._set_kernel(kernel)
    for name, value in fitted.items():
        setattr(model, name, value)
    return model


def _as_stored(names: Any) -> list[Any] | None:
    """Names of samples as a list; those of a pandas index that are no words and numbers, such as dates, as words."""
    if names is None or isinstance(names, list):
        return names
    listed: list[Any] = names.tolist()
    plain = all(isinstance(one, (str, int, float, tuple)) for one in listed)
    return listed if plain else [str(one) for one in listed]


def _kernel_entries(kernel: HeatKernel) -> dict[str, Any]:
    affinity = kernel.affinity
    given = affinity.given if isinstance(affinity, PrecomputedAffinity) else getattr(affinity, "X", None)
    local = isinstance(affinity, GaussianAffinity) and bool(np.ndim(affinity.epsilon))
    return {
        "X": given,
        "dtype": kernel.dtype.name,
        "bandwidth": kernel.bandwidth_rule if local else kernel.bandwidth,
        "rule": kernel.bandwidth_rule,
        "n_neighbors": getattr(affinity, "n_neighbors", None),
        "scaling": kernel.scaling,
    }


def _restored_kernel(entries: dict[str, Any], options: KernelOptions) -> HeatKernel:
    """The kernel from its entries in a file: its scaling as it was found, its affinity made again."""
    X, scaling = entries["X"], entries["scaling"]
    if not isinstance(scaling, Scaling) or not (isinstance(X, np.ndarray) or issparse(X)) or X.ndim != 2:
        raise ValueError("the kernel has no points or no scaling")
    if not X.shape[1]:
        raise ValueError(f"its {X.shape[0]} points have no columns")
    _check_scaling(scaling, X.shape[0])  # before anything of that size is made
    dtype = np.dtype(entries["dtype"])
    if dtype not in (np.float32, np.float64) or not np.isfinite(X.data if issparse(X) else X).all():
        raise ValueError(f"the kernel is in {dtype}, or its points are not finite")
    found: dict[str, Any] = {"n_neighbors": entries["n_neighbors"]}
    if options.affinity != "precomputed":
        found["bandwidth"] = entries["bandwidth"]
    kept = {field.name: getattr(options, field.name) for field in fields(options)}
    try:
        find_device("cpu" if options.device == "auto" else options.device)
    except (ImportError, OSError, ValueError):
        kept["device"] = "auto"  # fitted on a machine with a device that this one lacks
    affinity, _ = build_affinity(X, KernelOptions(**kept | found), dtype)
    return HeatKernel.from_affinity(affinity, scaling, entries["rule"])


def _check_fitted(kind: type, kernel: HeatKernel, fitted: dict[str, Any]) -> None:
    """Refuse what does not belong together: compiled code does not look again, and methods must stay what they are."""
    n = kernel.shape[0]
    power = fitted["power_"]
    if not np.isfinite(power) or not power > 0:
        raise ValueError(f"its power is {power}")
    columns = int(fitted["n_components_"])
    for name in ("embedding_", "_coefficients"):
        if np.shape(fitted[name]) != (n, columns) or fitted[name].dtype.kind != "f":
            raise ValueError(f"{name} has shape {np.shape(fitted[name])} for {n} samples and {columns} components")
        if not np.isfinite(fitted[name]).all():
            raise ValueError(f"{name} is not finite")
    for name in fitted:
        if name.startswith("__") or (hasattr(kind, name) and name != "_sample_names") or name in _DERIVED:
            raise ValueError(f"it holds a {name!r}, which is no attribute of a fit")
    if not isinstance(fitted.get("power_choice_"), (ChosenPower, type(None))):
        raise ValueError("power_choice_ is of another kind")
    names = fitted.get("_sample_names")
    if names is not None and (not isinstance(names, list) or len(names) != n):
        raise ValueError(f"there are not {n} names of samples")


def _check_scaling(scaling: Scaling, n: int) -> None:
    """Refuse a scaling that is not that of so many samples, or not finite."""
    for name in ("scale", "trivial", "left", "reference", "row_weight"):
        values = getattr(scaling, name)
        if name == "row_weight" and values is None:
            continue
        if np.shape(values) != (n,) or not np.isfinite(values).all():
            raise ValueError(f"{name} has shape {np.shape(values)} for {n} samples, or is not finite")
    if not np.min(scaling.reference) > 0:  # new points are divided by a mean of it
        raise ValueError("reference is not positive")
    numbers = (scaling.reference_exponent, scaling.degree_exponent, scaling.constant)
    if not np.isfinite(numbers).all():
        raise ValueError(f"its exponents and constant are {numbers}")
