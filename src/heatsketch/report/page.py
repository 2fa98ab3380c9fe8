"""The report as one HTML file: text and tables as HTML, and the data of the pictures for the script of the page."""

from __future__ import annotations

import base64
import gzip
import html
import json
import os
import platform
from collections.abc import Iterable
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import scipy
import sklearn
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._utils.extras import optional
from .._utils.files import check_writable, replacing
from .._utils.typing import FloatArray
from .._version import __version__
from ..estimators import ESTIMATORS
from ..kernel.affinity import GaussianAffinity
from ..kernel.options import check_count
from ..linalg.diffusion import check_powers
from .contents import Contents, Picture, gather
from .points import MAX_COLORS, MISSING, Column, Coordinates, read_columns, read_names

__all__ = ["plotly_script", "render", "write_report"]


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    *,
    names: Any = None,
    columns: Any = None,
    title: str | None = None,
    call: str | None = None,
    methods: bool = True,
    powers: ArrayLike | None = None,
    max_points: int = 20_000,
) -> Path:
    """Write a fitted embedding as one HTML file that works offline.

    The page draws the embedding in two and three dimensions at every diffusion time, beside the other methods on the
    same kernel, with its distances and their intervals, its curves over the scales, what looks wrong, and how it was
    made.

    Parameters
    ----------
    model : fitted GaussianProcessEmbedding, DiffusionMaps or HeatSketch
        For the pictures it is fitted again to the same kernel with 2 and with 3 components, unless it has as many.
    path : str or path-like
        The file; nothing is written if the report fails.
    names : array-like of shape (n_samples,), optional
        Names of the samples; by default `sample_names_`: the nodes of a graph, the index of a frame, or row numbers.
    columns : pandas or polars frame, or dict of arrays of shape (n_samples,), optional
        Numbers or labels to colour by. Integers with at most 20 different values are labels. None, NaN and infinite
        values are missing. Up to 36 features of the points are offered as well.
    title : str, optional
        By default the name of the estimator.
    call : str, optional
        Code or command that repeats the embedding; by default it is derived from the parameters.
    methods : bool
        Whether the other methods are fitted for comparison.
    powers : array-like of float, optional
        Diffusion times of the slider; by default 1, 2, 4, ... while anything is left of the kernel. That of the
        embedding is always included.
    max_points : int
        Largest number of points that are drawn individually. Larger data are drawn as the cells of a grid, with a
        random sample of this size over them.

    Returns
    -------
    path : Path

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.circle(200, random_state=0)
    >>> model = hs.DiffusionMaps(power=4).fit(X)
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     page = hs.write_report(model, f"{folder}/page.html", methods=False)
    ...     print(page.name, page.stat().st_size < 3e6)
    page.html True
    """
    known_kinds: Any = tuple(ESTIMATORS.values())
    if not isinstance(model, known_kinds):
        raise TypeError(f"{type(model).__name__} was given as model; give one of {', '.join(ESTIMATORS)}, fitted.")
    check_is_fitted(model)
    target = check_writable(path)
    n = model.kernel_.shape[0]
    for value, name in ((title, "title"), (call, "call")):
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} was given as {type(value).__name__}; give a str, or None.")
    if not isinstance(methods, (bool, np.bool_)):
        raise TypeError(f"methods={methods!r} was given; give True or False.")
    known = model.sample_names_ if names is None and model._sample_names is not None else names
    options: dict[str, Any] = {
        "names": read_names(known, n),
        "columns": read_columns(columns, n),
        "methods": bool(methods),
        "powers": None if powers is None else check_powers(powers),
        "max_points": check_count(max_points, "max_points", "an integer of at least 2", least=2),
    }
    plotly = plotly_script()  # first of all, since plotly may be missing
    contents = gather(model, **options)
    page = render(
        model,
        contents,
        title=title or f"{type(model).__name__} of {n:,} points",
        call=call or _call(model, target),
        plotly=plotly,
    )
    with replacing(target) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return target


@cache
def plotly_script() -> str:
    """The plotting library, compressed."""
    script: str = optional("plotly.offline", "write a report", "plot").get_plotlyjs()
    return _compressed(script)


def _compressed(text: str) -> str:
    """Text compressed by gzip, in base64: nothing in it can be taken for markup."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode("ascii")


def render(model: Any, contents: Contents, *, title: str, call: str, plotly: str) -> str:
    """The page as text.

    Parameters
    ----------
    model : fitted estimator
    contents : Contents
    title, call : str
    plotly : str
        The plotting library, compressed.
    """
    assets = files(__package__) / "assets"
    template, style, script = ((assets / name).read_text("utf-8") for name in ("page.html", "page.css", "page.js"))
    k = contents.n_components
    lead = (
        f"{type(model).__name__} of {contents.n_samples:,} points in {k} component{'s' * (k > 1)} at diffusion time "
        f"{contents.power:g}."
    )
    return Template(template).substitute(
        title=html.escape(title),
        lead=html.escape(lead),
        style=style,
        notes="".join(f'<p class="notice">{html.escape(note)}</p>' for note in contents.notes),
        findings=_findings(contents),
        comparison=_comparison(contents),
        pairs=html.escape(_pairs_summary(contents)),
        facts=_rows(_facts(model, contents)),
        parameters=_rows((name, repr(value)) for name, value in model.get_params(deep=False).items()),
        call=html.escape(call),
        version=__version__,
        date=date.today().isoformat(),
        plotly=plotly,
        data=_compressed(json.dumps(_data(contents), ensure_ascii=False, allow_nan=False)),
        script=script,
    )


def _findings(contents: Contents) -> str:
    parts = []
    for one in contents.diagnosis:
        mark, word = ("harmful", "<strong>Do not trust this as it is.</strong> ") if one.harmful else ("", "")
        parts.append(
            f'<div class="finding {mark}"><p>{word}{html.escape(one.message)}</p>'
            f'<p class="remedy">{html.escape(one.remedy)}</p></div>'
        )
    if not parts:
        parts.append('<div class="finding fine"><p>Nothing looks wrong.</p></div>')
    if contents.support is not None:
        parts.append(f'<div class="finding"><p>{html.escape(contents.support)}</p></div>')
    return "\n".join(parts)


def _comparison(contents: Contents) -> str:
    head = "".join(
        f'<th scope="col"{" class=number" * (at > 0)}>{title}</th>'
        for at, title in enumerate(("method", "log L", "central log L", "median error", "seconds"))
    )
    body = "".join(
        f'<tr><th scope="row">{name}</th>' + "".join(f'<td class="number">{cell}</td>' for cell in cells) + "</tr>"
        for name, *cells in contents.comparison.rows()
    )
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f'<p class="hint">In the plane, at diffusion time {contents.power:g}; measured on '
        f"{html.escape(contents.comparison.measured)}. Seconds do not include the kernel.</p>"
    )


def _pairs_summary(contents: Contents) -> str:
    pairs = contents.pairs
    outside = (pairs["embedded"] < pairs["low"]) | (pairs["embedded"] > pairs["high"])
    return (
        f"{len(outside):,} pairs of random points: exact diffusion distance, and distance in the embedding. "
        "The band is the 95% confidence interval of the diffusion distance, given by the sketch itself or by an "
        f"independent one; {outside.mean():.0%} of the distances in the embedding lie outside their interval."
    )


def _facts(model: Any, contents: Contents) -> Iterable[tuple[str, str]]:
    kernel, chosen = model.kernel_, model.power_choice_
    yield "estimator", type(model).__name__
    yield "points", f"{contents.n_samples:,}"
    yield "features", f"{model.n_features_in_:,}"
    yield "components", str(contents.n_components)
    yield "diffusion time (power)", f"{contents.power:g} ({'given' if chosen is None else f'by {chosen.rule}'})"
    if isinstance(kernel.affinity, GaussianAffinity):
        typical = "" if np.ndim(kernel.bandwidth) == 0 else "median of "
        yield "bandwidth", f"{typical}{np.median(np.asarray(kernel.bandwidth)):.6g} ({kernel.bandwidth_rule})"
    yield "kernel", kernel.affinity.description
    yield "normalisation", f"{model.normalization}, {model.n_iter_} products"
    yield "precision", str(kernel.dtype)
    if hasattr(model, "seed_"):
        yield "seed", str(model.seed_)
    yield from (
        ("heatsketch", __version__),
        ("Python", platform.python_version()),
        ("NumPy", np.__version__),
        ("SciPy", scipy.__version__),
        ("scikit-learn", sklearn.__version__),
    )


def _rows(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(f'<tr><th scope="row">{html.escape(a)}</th><td>{html.escape(b)}</td></tr>' for a, b in pairs)


def _call(model: Any, target: Path) -> str:
    """Code that repeats an embedding, with the seed that was drawn."""
    again = clone(model)
    if hasattr(model, "seed_"):
        again.set_params(random_state=model.seed_)
    arrays = [name for name, value in again.get_params(deep=False).items() if np.ndim(value) == 2]
    again.set_params(**{name: _Name(name) for name in arrays})
    return (
        "import heatsketch as hs\n\n"
        + "".join(f"{name} = ...  # the array that was given\n" for name in arrays)
        + f"model = hs.{again.__repr__(N_CHAR_MAX=1_000_000)}.fit(X)\nhs.write_report(model, {target.name!r})"
    )


class _Name:
    """Prints as the name of an array, in the code that repeats an embedding."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


def _data(contents: Contents) -> dict[str, Any]:
    """The data of the pictures, for JSON."""
    points = np.uint32 if len(contents.drawn) > 1 << 16 else np.uint16
    return {
        "n": contents.n_samples,
        "components": contents.n_components,
        "missing": MISSING,
        "mostColours": MAX_COLORS,
        "chosen": contents.chosen,
        "powers": contents.powers.tolist(),
        "ids": None if contents.names is None else [contents.name(row) for row in contents.drawn],
        "drawn": _binary(contents.drawn.astype(np.uint32)),
        "solid": _binary(contents.solid.astype(np.uint32)),
        "columns": [_column(column, column.values[contents.drawn]) for column in contents.columns],
        "methods": [_picture(picture) for picture in contents.pictures],
        "figures": [dict(zip(("log", "central"), row[1:3], strict=True)) for row in contents.comparison.rows()],
        "pairs": {
            "names": [[contents.name(i), contents.name(j)] for i, j in contents.pair_indices.tolist()],
            **{name: _rounded(values) for name, values in contents.pairs.items()},
        },
        "curves": {name: _rounded(values) for name, values in contents.curves.items()},
        "near": {
            "k": contents.neighbors.shape[1],
            "points": _binary(contents.neighbors.astype(points)),
            "low": _scaled(contents.near_low),
            "high": _scaled(contents.near_high),
        },
    }


def _column(column: Column, values: Any) -> dict[str, Any]:
    if column.labels is not None:
        return {"name": column.name, "labels": column.labels, "values": _binary(values.astype(np.int16))}
    return {"name": column.name, "labels": None, "range": column.range, **_scaled(values)}


def _picture(picture: Picture) -> dict[str, Any]:
    def frames(coordinates: list[Coordinates]) -> list[dict[str, Any]]:
        return [{"axes": [_binary(axis) for axis in one.axes], "radius": one.radius} for one in coordinates]

    cells = [
        {"size": len(one.counts), "counts": _binary(one.counts), "colours": [_binary(color) for color in one.colors]}
        for one in picture.cells or ()
    ]
    return {
        "name": picture.name,
        "flat": frames(picture.flat),
        "solid": None if picture.solid is None else frames(picture.solid),
        "cells": cells or None,
        "distortion": _rounded(picture.distortion),
    }


def _binary(values: NDArray[Any]) -> dict[str, str]:
    """An array as a typed array of the browser: its kind, and its bytes in base64."""
    kind = {"uint8": "Uint8", "uint16": "Uint16", "int16": "Int16", "uint32": "Uint32", "float32": "Float32"}
    data = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).tobytes()
    return {"kind": f"{kind[values.dtype.name]}Array", "data": base64.b64encode(data).decode("ascii")}


def _scaled(values: FloatArray) -> dict[str, Any]:
    """Numbers in single precision relative to a power of two, so that any range fits; missing ones are NaN."""
    known = values[np.isfinite(values)]
    scale = float(np.ldexp(0.5, np.frexp(np.abs(known).max())[1])) if known.size else 1.0
    return {"scale": scale, "values": _binary((values / scale).astype(np.float32))}


def _rounded(values: FloatArray) -> list[float | None]:
    """Numbers for JSON, which has neither NaN nor infinity, with the digits that a plot shows."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]
