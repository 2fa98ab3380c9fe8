"""Files that are nearly right: what a fuzzer does to a file, by bytes and by the structure of its format.

A file is changed by a list of edits, each a name and two numbers that say where and how, so that Hypothesis can make
the list shorter and the numbers smaller.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

CORPUS = Path(__file__).parent / "corpus"
_NUMBERS = [
    b"0", b"-1", b"1", b"1e400", b"nan", b"inf", b"-inf", b"1e-320", b"255", b"65536", b"2147483648", b"-2147483649",
    b"4294967296", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809", b"1000000000000000000000",
    b"99999999", b"0x10", b"1_000", b"1.5", b"", b"True", b"None", b"'x'", b"9" * 5000,
]  # fmt: skip
_WORDS = [
    b"\x00", b"\xff\xfe", b'"', b"'", b"\n", b"\r", b",", b"\t", b";", b"%", b"#", b"<", b"&", b"]]>", b"{", b"}", b"(",
    b"))", b"\xc3\x28", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\\u0000", b"../../x", b"$record", b"__class__", b"PK\x01",
    b"\x1b[31m", b"=1+1", "\u2028".encode(), b"a" * 300, b"\x80", b"\xff" * 8, b"\x00" * 64, b"\x7f\xff\xff\xff",
]  # fmt: skip
_DTYPES = [
    b"'<f8'", b"'|O'", b"'>f4'", b"'<U3'", b"'|S0'", b"'<c16'", b"'<M8[D]'", b"'|V8'", b"'<f2'", b"'<f16'", b"'|b1'",
    b"'a3'", b"'f8,f8'", b"'(2,3)f8'", b"[('a', '<f8')]", b"[('', '|V4')]", b"'|V2147483647'", b"['x']", b"'|u1'",
    b"{'a': 1}", b"()", b"1", b"b'<f8'", b"'T'", b"'O,f8'",
]  # fmt: skip
_VALUES: list[Any] = [
    None, True, 0, -1, 10**6, 10**30, 1e308, "", "x", "nan", [], {}, [1, 2], [[]], {"$array": "arrays/0.npy"},
    {"$number": "nan"}, {"$number": "inf"}, {"$tuple": [1]}, {"$map": [[1, 2]]}, {"$strings": ["a"]}, {"$record": "x"},
    {"$array": "../x"}, {"$record": "Scaling", "fields": {}}, {"$sparse": {"shape": [3, 3]}}, "cosine", "precomputed",
    "cuda", "columns", "auto", 0.5, "\ud800",
]  # fmt: skip

BYTES = ("flip", "set", "insert", "number", "number", "delete", "cut", "repeat", "splice")
Edit = tuple[str, int, int]


def edits(names: tuple[str, ...]) -> st.SearchStrategy[list[Edit]]:
    """Some edits of these kinds."""
    whole = st.integers(0, 2**24)
    return st.lists(st.tuples(st.sampled_from(names), whole, whole), min_size=1, max_size=5)


def changed(content: bytes, made: list[Edit], others: list[bytes]) -> bytes:
    """The content of a file after some edits; others are files to take pieces of."""
    for name, at, how in made:
        content = _EDITS.get(name, _bytes)(content, name, at, how, others)
    return content


def _bytes(content: bytes, name: str, at: int, how: int, others: list[bytes]) -> bytes:
    if not content:
        return _WORDS[how % len(_WORDS)]
    at %= len(content)
    end = min(len(content), at + 1 + how % 40)
    other = others[how % len(others)] if others else b""
    before, cut, after = content[:at], content[at:end], content[end:]
    made = {
        "flip": before + bytes([content[at] ^ (1 << how % 8)]) + content[at + 1 :],
        "set": before + bytes([how % 256]) + content[at + 1 :],
        "insert": before + _WORDS[how % len(_WORDS)] + content[at:],
        "delete": before + after,
        "cut": before,
        "repeat": before + cut * (how % 50) + after,
        "splice": before + other[how % max(1, len(other)) :],
    }
    return made[name] if name in made else _number(content, at, how)


def _number(content: bytes, at: int, how: int) -> bytes:
    """Another number where there is one."""
    found = [*re.finditer(rb"-?\d+(\.\d+)?", content)]
    if not found:
        return content
    one = found[at % len(found)]
    return content[: one.start()] + _NUMBERS[how % len(_NUMBERS)] + content[one.end() :]


def _dtype(content: bytes, _name: str, at: int, how: int, _others: list[bytes]) -> bytes:
    """Another dtype in the header of an array, whose length stays right."""
    return _header(content, rb"'descr': ?('[^']*'|\[[^\]]*\])", _DTYPES[how % len(_DTYPES)], b"'descr': ")


def _shape(content: bytes, _name: str, at: int, how: int, _others: list[bytes]) -> bytes:
    pair = (_NUMBERS[at % len(_NUMBERS)], _NUMBERS[how % len(_NUMBERS)])
    return _header(content, rb"'shape': ?\([^)]*\)", b"(" + b", ".join(pair) + b")", b"'shape': ")


def _header(content: bytes, pattern: bytes, value: bytes, key: bytes) -> bytes:
    found = re.search(pattern, content)
    if not found or content[:6] != b"\x93NUMPY":
        return content
    start = 10 if content[6] == 1 else 12
    length = int.from_bytes(content[8:start], "little")
    header = content[start : start + length]
    new = re.sub(pattern, lambda _: key + value, header, count=1)
    return content[:8] + len(new).to_bytes(start - 8, "little") + new + content[start + length :]


def _inside_gzip(content: bytes, _name: str, at: int, how: int, others: list[bytes]) -> bytes:
    """Bytes of what is compressed."""
    try:
        inner = gzip.decompress(content)
    except Exception:
        return content
    return gzip.compress(_bytes(inner, BYTES[how % len(BYTES)], at, how // 16, others), 1)


def _members(content: bytes) -> list[tuple[str, bytes, int]]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return [(one.filename, archive.read(one), one.compress_type) for one in archive.infolist()]
    except Exception:
        return []


def _packed(members: list[tuple[str, bytes, int]]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number, (name, content, kind) in enumerate(members):
            if name in archive.namelist():
                name = f"{name[:-4]}{number}.npy"  # noqa: PLW2901
            archive.writestr(name, content, kind)
    return file.getvalue()


def _member(content: bytes, name: str, at: int, how: int, others: list[bytes]) -> bytes:
    """One member of an archive, whose directory and sums stay right; or its name."""
    members = _members(content)
    if not members:
        return content
    which = at % len(members)
    label, inner, kind = members[which]
    if name == "rename":
        label = ["../../x.npy", "/etc/x.npy", "X.npy", ".npy", "X", "model.json", "a" * 200 + ".npy", "é.npy"][how % 8]
    elif name == "drop":
        del members[which]
        return _packed(members)
    elif name == "method":
        kind = [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA][how % 3]
    elif name == "exchange":
        inner = members[how % len(members)][1]
    else:
        edit = {"member-dtype": _dtype, "member-shape": _shape}.get(name, _bytes)
        inner = edit(inner, BYTES[how % len(BYTES)], at // 7, how // 16, others)
    members[which] = (label, inner, kind)
    return _packed(members)


def _json(content: bytes, _name: str, at: int, how: int, _others: list[bytes]) -> bytes:
    """One value of a document, in an archive or by itself."""
    members = _members(content)
    text = next((inner for label, inner, _ in members if label == "model.json"), content)
    try:
        document = json.loads(text)
    except ValueError:
        return content
    places = [*_places(document)]
    if not places:
        return content
    inside, key = places[at % len(places)]
    if how % 8 == 0:
        del inside[key]
    else:
        inside[key] = _VALUES[how // 8 % len(_VALUES)]
    new = json.dumps(document).encode()
    if not members:
        return new
    return _packed([(label, new if label == "model.json" else inner, kind) for label, inner, kind in members])


def _places(value: Any) -> Any:
    """Every place of a document, as what it is in and by which key."""
    keys = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(keys):
        yield value, key
        yield from _places(inner)


ARRAY = ("dtype", "shape")
ARCHIVE = ("member", "member", "rename", "drop", "method", "exchange", "member-dtype", "member-shape")
DOCUMENT = ("json",)
COMPRESSED = ("inside",)
_EDITS: dict[str, Any] = {"dtype": _dtype, "shape": _shape, "inside": _inside_gzip, "json": _json} | dict.fromkeys(
    ARCHIVE, _member
)
