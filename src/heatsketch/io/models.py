"""Fitted embeddings in files, saved without pickle: loading a model from an unknown source executes nothing.

`docs/models.md` describes the format, a document of `heatsketch.io.storage`.
The neighbours of a sparse kernel are not stored; they are searched for again when the model is loaded.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .._utils.array import to_numpy
from .._utils.registry import backend_of, find_device
from .._version import __version__
from ..estimators import ESTIMATORS
from ..kernel.build import build_affinity
from ..kernel.normalize import Scaling
from ..kernel.operator import HeatKernel
from ..kernel.options import KernelOptions, kernel_options
from ..kernel.precomputed import PrecomputedAffinity
from ..linalg.filters import MultiscaleFilter, check_power
from ..linalg.sketch import ArraySketch, ColumnSketch, GaussianSketch, HashedRademacherSketch, RademacherSketch
from ..tables import Column, TableEncoder
from .errors import check_exists
from .storage import read_document, write_document

__all__ = ["load_model", "save_model"]

_FORMAT, _VERSION = "heatsketch model", 1
# Classes that a model may contain.
_RECORDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        ArraySketch,
        Column,
        ColumnSketch,
        GaussianSketch,
        HashedRademacherSketch,
        MultiscaleFilter,
        RademacherSketch,
        Scaling,
    )
}
# Attributes that follow from the kernel, or are recomputed.
_DERIVED = {
    "kernel_",
    "_reference",
    "_frame_index",
    "_layout",
    "bandwidth_",
    "n_neighbors_",
    "n_iter_",
    "scaling_residual_",
}


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a fitted embedding to a file, completely or not at all.

    Parameters
    ----------
    model : fitted GaussianProcessEmbedding, DiffusionMaps or HeatSketch, or Pipeline of a TableEncoder and one of these
        A random generator is replaced by the seed that it drew. The metric must not be a
        function, and the nodes of a graph must be strings, numbers or tuples of these.
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
    table = None
    if isinstance(model, Pipeline) and [type(step) for _, step in model.steps[:-1]] == [TableEncoder]:
        table = _table_entries(model)
        model = model[-1]
    name = next((name for name, kind in ESTIMATORS.items() if type(model) is kind), None)
    if name is None:
        raise ValueError(
            f"cannot save a {type(model).__name__}; give a fitted {', '.join(ESTIMATORS)}, or a Pipeline of a "
            "TableEncoder and one of these."
        )
    check_is_fitted(model)
    if not model.kernel_.in_memory:
        raise ValueError(
            f"this {name} was fitted to a Dask array, and a model file holds all data; store its embedding_ instead "
            "(embedding_.to_zarr(...)), or fit to a part of the data in memory and save that."
        )
    parameters = {key: _in_memory(value) for key, value in model.get_params(deep=False).items()}
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
    if hasattr(model._sample_names, "tolist"):  # the index of a frame; dates are stored as strings
        names = model._sample_names.tolist()
        document["fitted"]["_sample_names"] = [
            name if isinstance(name, (str, int, float, tuple)) else str(name) for name in names
        ]
    if table is not None:
        document["table"] = table
    write_document(Path(path), document, _RECORDS)


def _table_entries(pipeline: Pipeline) -> dict[str, Any]:
    """The encoder of a pipeline, and the names of its steps."""
    encoder = pipeline[0]
    check_is_fitted(encoder)
    parameters = encoder.get_params(deep=False)
    fitted = {key: value for key, value in vars(encoder).items() if key not in parameters}
    return {"steps": [name for name, _ in pipeline.steps], "parameters": parameters, "fitted": fitted}


def _restored_table(entries: dict[str, Any], model: Any) -> Pipeline:
    """The pipeline of an encoder and a model."""
    encoder, fitted = TableEncoder(**entries["parameters"]), entries["fitted"]
    if not fitted["columns_"] or not all(isinstance(column, Column) for column in fitted["columns_"]):
        raise ValueError("the table has no columns, or other values in their place")
    for name, value in fitted.items():
        setattr(encoder, name, value)
    width = len(encoder.get_feature_names_out())
    if width != model.n_features_in_:
        raise ValueError(f"the table has {width} encoded columns, and the embedding {model.n_features_in_}")
    first, last = entries["steps"]
    return Pipeline([(first, encoder), (last, model)])


def _in_memory(value: Any) -> Any:
    """Arrays of a backend as NumPy arrays; other values unchanged."""
    return value if backend_of(value) is None else to_numpy(value)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Load a fitted embedding that `save_model` wrote.

    Nothing in the file is executed. A kernel of nearest neighbours searches for them again, as the fit did.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    model : GaussianProcessEmbedding, DiffusionMaps or HeatSketch, or Pipeline of a TableEncoder and one of these
        What was saved; ``model[-1]`` is the embedding of a pipeline. It embeds new points exactly as the saved model
        does, in the same version of heatsketch.

    Raises
    ------
    ValueError
        If the file is damaged, not a model, or of a later version.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import heatsketch as hs
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "circle.heatsketch"
    ...     hs.save_model(hs.DiffusionMaps(2, bandwidth=0.25).fit(hs.datasets.circle(100, random_state=0)), path)
    ...     model = hs.load_model(path)
    >>> model.transform([[1.0, 0.0], [0.0, 1.0]]).shape
    (2, 2)
    """
    document = read_document(check_exists(path), _RECORDS)
    try:
        if document["format"] != _FORMAT or document["estimator"] not in ESTIMATORS:
            raise ValueError(f"it is not a model; save one with heatsketch.save_model(model, {str(path)!r})")
        if document["version"] != _VERSION:
            raise ValueError(
                f"it has version {document['version']} of the format and was written by heatsketch "
                f"{document['heatsketch']}; this is heatsketch {__version__}. Install a later version"
            )
        model = ESTIMATORS[document["estimator"]](**document["parameters"])
        kernel, fitted = _restored_kernel(document["kernel"], kernel_options(model)), document["fitted"]
        _check_fitted(kernel, fitted)
        model._set_kernel(kernel)
        for name, value in fitted.items():
            setattr(model, name, value)
        if "table" in document:
            model = _restored_table(document["table"], model)
    except (ImportError, OSError, MemoryError):
        raise
    except Exception as error:
        raise ValueError(f"{path} cannot be loaded: {error}.") from error
    return model


def _kernel_entries(kernel: HeatKernel) -> dict[str, Any]:
    affinity = kernel.affinity
    given = affinity.given if isinstance(affinity, PrecomputedAffinity) else getattr(affinity, "X", None)
    return {
        "X": given,
        "dtype": kernel.dtype.name,
        "bandwidth": kernel.bandwidth,
        "rule": kernel.bandwidth_rule,
        "n_neighbors": getattr(affinity, "n_neighbors", None),
        "scaling": kernel.scaling,
    }


def _restored_kernel(entries: dict[str, Any], options: KernelOptions) -> HeatKernel:
    """The kernel, with the scaling from the file and a new affinity."""
    X, scaling, dtype = entries["X"], entries["scaling"], np.dtype(entries["dtype"])
    values = X.data if issparse(X) else X
    if X.ndim != 2 or 0 in X.shape or not np.isfinite(values).all() or dtype.kind != "f":
        raise ValueError(f"the kernel has dtype {dtype} and points of shape {X.shape}, or they are not finite")
    # Compiled code does not check lengths again.
    for name in ("scale", "trivial", "left", "reference", "row_weight", "masses"):
        vector = getattr(scaling, name)
        if np.shape(vector) != (X.shape[0],) and not (name in ("row_weight", "masses") and vector is None):
            raise ValueError(f"{name} has shape {np.shape(vector)} for {X.shape[0]} points")
        _check_finite(name, 0.0 if vector is None else vector)
    for name in ("reference_exponent", "degree_exponent", "constant"):
        _check_finite(name, getattr(scaling, name))
    found: dict[str, Any] = {"n_neighbors": entries["n_neighbors"]}
    if options.affinity != "precomputed":
        found["bandwidth"] = entries["bandwidth"]
    try:
        find_device("cpu" if options.device == "auto" else options.device)
    except (ImportError, OSError, ValueError):
        found["device"] = "auto"  # this machine lacks the device of the fit
    affinity, _ = build_affinity(X, replace(options, **found), dtype)
    return HeatKernel.from_affinity(affinity, scaling, entries["rule"])


def _check_fitted(kernel: HeatKernel, fitted: dict[str, Any]) -> None:
    """Raise ValueError if fitted attributes do not have the shape that the kernel asks for."""
    n, k, positive = kernel.shape[0], int(fitted["n_components_"]), fitted.get("_positive")
    if positive is not None and (positive.dtype != bool or positive.ndim != 1 or positive.sum() != n):
        raise ValueError(f"the samples with a positive weight, of shape {positive.shape}, are not {n} in number")
    n_samples = n if positive is None else len(positive)
    arrays = {"embedding_": (n_samples, k)}
    if fitted.get("_unit") is None:
        arrays["_coefficients"] = (n, k)
    else:
        _check_finite("_unit", fitted["_unit"])
    for name, shape in arrays.items():
        if np.shape(fitted[name]) != shape:
            raise ValueError(f"{name} has shape {np.shape(fitted[name])}, expected {shape}")
        _check_finite(name, fitted[name])
    check_power(fitted["power_"])
    names = fitted["_sample_names"]
    if names is not None and len(names) != n_samples:
        raise ValueError(f"there are {len(names)} names for {n_samples} samples")


def _check_finite(name: str, values: Any) -> None:
    """Raise ValueError if an attribute does not hold finite real numbers."""
    if np.asarray(values).dtype.kind not in "fiu" or not np.isfinite(values).all():
        raise ValueError(f"{name} must hold finite numbers only")
