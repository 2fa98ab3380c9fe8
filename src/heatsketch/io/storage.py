"""Values in a file without pickle: a zip of one JSON document and the arrays it refers to.

The document holds numbers, words, lists and objects as JSON has them. What JSON does not have is an object with one
key that begins with "$":

=============  ========================================================================================
``$array``     name of a member in NumPy's .npy format, numbers only
``$strings``   an array of words: their list
``$sparse``    a matrix in compressed rows: ``shape``, ``data``, ``indices``, ``indptr``
``$tuple``     a list that was a tuple
``$map``       a dict whose keys are not words: a list of pairs
``$number``    "nan", "inf" or "-inf"
``$record``    name of a kind that the reader knows, with its ``fields``
=============  ========================================================================================

Members are stored without compression, so a file takes as much memory as disk. Reading builds numbers, words and the
kinds that the caller lists; it imports nothing by name and calls nothing that the file names.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .._utils.files import whole
from .untrusted import brief, check_array_header, check_compressed, parsing

__all__ = ["read_document", "write_document"]

_DOCUMENT = "model.json"
# Of the document itself; arrays are bounded by the size of the file.
_LARGEST_DOCUMENT = 1 << 28
_DEEPEST = 32


def write_document(path: Path, document: Mapping[str, Any], records: Mapping[str, type]) -> None:
    """Write a document and its arrays to a file, whole or not at all.

    Parameters
    ----------
    path : Path
    document : mapping
    records : mapping of str to type
        Dataclasses and named tuples that the document may contain, by the name that they get in the file.
    """
    writer = _Writer(records)
    text = json.dumps(writer.encode(dict(document), "the document"), allow_nan=False, indent=1)
    with whole(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        archive.writestr(_DOCUMENT, text)
        for name, array in writer.arrays.items():
            with archive.open(name, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def read_document(path: Path, records: Mapping[str, type]) -> dict[str, Any]:
    """Read what `write_document` wrote.

    Raises
    ------
    ValueError
        If the file is not one of these, or damaged; the message says how.
    """
    with path.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return _Reader(archive, records).document()
        except Exception as error:  # of zipfile, json, NumPy and records, on what may be anything
            raise ValueError(f"{path} is damaged, or no model of heatsketch: {brief(str(error))}") from error


class _Writer:
    """Turns values into JSON and puts arrays aside."""

    def __init__(self, records: Mapping[str, type]) -> None:
        self._names = {kind: name for name, kind in records.items()}
        self.arrays: dict[str, Any] = {}

    def encode(self, value: Any, place: str) -> Any:  # noqa: PLR0911
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"$number": repr(value)}
        if isinstance(value, np.ndarray):
            return self._array(value, place)
        if sparse.issparse(value):
            rows = sparse.csr_array(value)
            parts = {"shape": list(rows.shape), "data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
            return {"$sparse": self.encode(parts, place)}
        if type(value) in self._names:
            return {"$record": self._names[type(value)], "fields": self._fields(value, place)}
        if isinstance(value, list):
            return [self.encode(one, f"{place}[{n}]") for n, one in enumerate(value)]
        if isinstance(value, tuple):
            return {"$tuple": self.encode(list(value), place)}
        if isinstance(value, dict):
            return self._dict(value, place)
        raise ValueError(
            f"{place} is a {type(value).__name__}, which a model file does not hold: it holds numbers, words, arrays, "
            "lists and dicts of these. Set it to one of them, or pickle the estimator where you trust the reader."
        )

    def _dict(self, value: dict[Any, Any], place: str) -> Any:
        plain = all(isinstance(key, str) and not key.startswith("$") for key in value)
        if plain:
            return {key: self.encode(one, f"{place}.{key}") for key, one in value.items()}
        return {
            "$map": [[self.encode(key, place), self.encode(one, f"{place}[{key!r}]")] for key, one in value.items()]
        }

    def _fields(self, value: Any, place: str) -> dict[str, Any]:
        names = [field.name for field in fields(value)] if is_dataclass(value) else value._fields
        return {name: self.encode(getattr(value, name), f"{place}.{name}") for name in names}

    def _array(self, value: Any, place: str) -> Any:
        if value.dtype.kind in "biuf":
            name = f"arrays/{len(self.arrays)}.npy"
            self.arrays[name] = np.asarray(value)
            return {"$array": name}
        if value.ndim == 1 and all(isinstance(one, str) for one in value.tolist()):
            return {"$strings": value.tolist()}
        return self.encode(value.tolist(), place)


class _Reader:
    """Turns JSON back into values."""

    def __init__(self, archive: zipfile.ZipFile, records: Mapping[str, type]) -> None:
        self._archive, self._records = archive, records

    def document(self) -> dict[str, Any]:
        value = self._decode(json.loads(self._member(_DOCUMENT, _LARGEST_DOCUMENT)), 0)
        if not isinstance(value, dict):
            raise ValueError(f"{_DOCUMENT} holds a {type(value).__name__}")
        return value

    def _member(self, name: Any, most: int | None = None) -> bytes:
        info = self._archive.getinfo(name)
        if info.compress_type != zipfile.ZIP_STORED or (most is not None and info.file_size > most):
            raise ValueError(f"{name} is compressed or too large")
        return self._archive.read(info)

    def _decode(self, value: Any, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError(f"its document is nested more than {_DEEPEST} deep")
        if isinstance(value, list):
            return [self._decode(one, depth + 1) for one in value]
        if not isinstance(value, dict):
            return value
        special = next((key for key in value if key.startswith("$")), None)
        if special is None:
            return {key: self._decode(one, depth + 1) for key, one in value.items()}
        return self._special(special, value, depth + 1)

    def _special(self, key: str, value: dict[str, Any], depth: int) -> Any:
        content = value[key]
        if key == "$array":
            return self._array(content)
        if key == "$record":
            return self._record(content, self._decode(value.get("fields", {}), depth))
        content = self._decode(content, depth)
        readers: dict[str, Any] = {
            "$strings": lambda: np.array([str(one) for one in content], dtype=object),
            "$sparse": lambda: _sparse(**content),
            "$tuple": lambda: tuple(content),
            "$map": lambda: {_hashable(name): one for name, one in content},
            "$number": lambda: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[content],
        }
        if key not in readers:
            raise ValueError(f"it holds a {key!r}, which this version does not know")
        try:
            return readers[key]()
        except (TypeError, ValueError, KeyError) as error:
            raise ValueError(f"{key} holds {str(content)[:80]} ({error})") from error

    def _array(self, name: Any) -> Any:
        content = self._member(name)
        with parsing(f"the array {name}"):
            check_array_header(BytesIO(content), len(content))
            array: Any = np.lib.format.read_array(BytesIO(content), allow_pickle=False)
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{name} holds {array.dtype}, not numbers")
        return array

    def _record(self, name: Any, found: Any) -> Any:
        kind: Any = self._records.get(name) if isinstance(name, str) else None
        if kind is None:
            raise ValueError(f"it holds a {name!r}, which this version does not know")
        try:
            return kind(**found)
        except TypeError as error:
            raise ValueError(f"{name}: {error}") from error


def _sparse(shape: Any, data: Any, indices: Any, indptr: Any) -> sparse.csr_array:
    """A matrix in compressed rows whose entries all lie in it: compiled code does not look again."""
    if any(np.asarray(part).dtype.kind not in "iu" for part in (indices, indptr)):
        raise ValueError("its places are no whole numbers")
    rows = sparse.csr_array((data, indices, indptr), shape=tuple(shape))
    check_compressed(rows)
    return rows


def _hashable(key: Any) -> Any:
    hash(key)
    return key
