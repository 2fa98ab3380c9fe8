"""Values in a file without pickle: a zip archive of one JSON document and the arrays it refers to.

What JSON does not have is an object with one key that begins with "$", such as ``$array``; `docs/models.md` lists them.
Reading creates numbers, strings, arrays and the listed classes only; nothing is imported or called by name.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .._utils.files import replacing
from .._utils.indices import check_indices

__all__ = ["read_document", "write_document"]

_DOCUMENT = "model.json"


def write_document(path: Path, document: Mapping[str, Any], records: Mapping[str, type]) -> None:
    """Write a document and its arrays to a file, completely or not at all.

    `records` are dataclasses and named tuples that the document may contain, by their names in the file.
    """
    arrays: dict[str, Any] = {}
    names = {kind: name for name, kind in records.items()}
    text = json.dumps(_encode(dict(document), "document", names, arrays), allow_nan=False, indent=1)
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(_DOCUMENT), text)  # without the time: the same model gives the same bytes
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _encode(value: Any, place: str, names: Mapping[type, str], arrays: dict[str, Any]) -> Any:  # noqa: C901, PLR0911
    """A value as JSON; arrays of numbers are added to `arrays`. `place` is for the error message."""
    encode = partial(_encode, names=names, arrays=arrays)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$number": repr(value)}
    if isinstance(value, np.ndarray):
        return _encode_array(value, place, names, arrays)
    if sparse.issparse(value):
        X = sparse.csr_array(value)
        parts = {"shape": list(X.shape), "data": X.data, "indices": X.indices, "indptr": X.indptr}
        return {"$sparse": encode(parts, place)}
    if type(value) in names:
        keys = [field.name for field in fields(value)] if is_dataclass(value) else value._fields
        return {"$record": names[type(value)], "fields": {k: encode(getattr(value, k), f"{place}.{k}") for k in keys}}
    if isinstance(value, list):
        return [encode(one, f"{place}[{n}]") for n, one in enumerate(value)]
    if isinstance(value, tuple):
        return {"$tuple": encode(list(value), place)}
    if isinstance(value, dict) and all(isinstance(key, str) and key[:1] != "$" for key in value):
        return {key: encode(one, f"{place}.{key}") for key, one in value.items()}
    if isinstance(value, dict):
        return {"$map": [[encode(key, place), encode(one, f"{place}[{key!r}]")] for key, one in value.items()]}
    raise ValueError(
        f"{place} is a {type(value).__name__}, and a model file holds numbers, strings, arrays, lists and dicts only. "
        "Replace it by one of these, or pickle the estimator for readers who trust you."
    )


def _encode_array(value: Any, place: str, names: Mapping[type, str], arrays: dict[str, Any]) -> Any:
    if value.dtype.kind in "biuf":
        member = f"arrays/{len(arrays)}.npy"
        arrays[member] = np.asarray(value)
        return {"$array": member}
    listed = value.tolist()
    if value.ndim == 1 and all(isinstance(one, str) for one in listed):
        return {"$strings": listed}
    return _encode(listed, place, names, arrays)


def read_document(path: Path, records: Mapping[str, type]) -> dict[str, Any]:
    """Read a document that `write_document` wrote; raises ValueError for other and damaged files."""
    with path.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                decode = partial(_decode, archive=archive, records=records)
                return dict(json.loads(archive.read(_DOCUMENT), object_hook=decode))
        except Exception as error:  # of zipfile, json, NumPy and the records
            file.seek(0)
            begins = file.read(2) == b"PK"  # as a zip archive, whose end is not there
            reason = "incomplete or damaged; save or copy it again" if begins else "not a heatsketch model"
            raise ValueError(f"{path} is {reason} ({error}).") from error


def _decode(value: dict[str, Any], *, archive: zipfile.ZipFile, records: Mapping[str, type]) -> Any:
    """The value of a JSON object whose contents are decoded already."""
    key = next((key for key in value if key.startswith("$")), None)
    if key is None:
        return value
    content = value[key]
    if key == "$array":
        with archive.open(content) as member:
            return np.lib.format.read_array(member, allow_pickle=False)
    if key == "$record":
        return records[content](**value["fields"])
    if key == "$sparse":
        X = sparse.csr_array((content["data"], content["indices"], content["indptr"]), shape=tuple(content["shape"]))
        check_indices(X, "a sparse matrix of the model")
        return X
    readers: dict[str, Any] = {
        "$strings": partial(np.array, dtype=object),
        "$tuple": tuple,
        "$map": dict,
        "$number": float,
    }
    return readers[key](content)
