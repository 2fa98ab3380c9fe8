"""From the contents of a report to one HTML file."""

from __future__ import annotations

import html
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
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._utils.extras import optional
from .._utils.files import check_writable, replacing
from .._utils.typing import FloatArray
from .._version import __version__
from ..estimators import ESTIMATORS
from ..kernel.affinity import GaussianAffinity
from ..kernel.options import check_count
from .columns import MISSING, MOST_COLOURS, Column, read_columns, read_names
from .contents import Contents, Request, Shown, gather
from .packing import Packer, compressed, in_levels, in_logarithms
from .pictures import Coordinates

__all__ = ["plotly_script", "render", "write_report"]

MAX_POINTS = 20_000


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
    max_points: int = MAX_POINTS,
) -> Path:
    """Write a fitted embedding as one HTML file that works offline.

    The page draws the embedding in two and three dimensions at every diffusion time, beside the other methods on the
    same kernel, with its distances and their intervals, its curves over the scales, what looks wrong, and how it was
    made.

    Parameters
    ----------
    model : fitted GaussianProcessEmbedding, DiffusionMaps or HeatSketch
        Where it has other than 2 and 3 components, it is fitted again with so many, to the same kernel, for the
        pictures.
    path : str or path-like
        The file; it is written completely or not at all.
    names : array-like of shape (n_samples,), optional
        What samples are called; by default as `sample_names_` says: nodes of a graph, the index of a frame, or numbers.
    columns : pandas or polars frame, or dict of arrays of shape (n_samples,), optional
        What to colour by: numbers, or words. Whole numbers with at most 20 values are groups. None, NaN and infinite
        values are missing. Up to 36 features of the points are offered as well.
    title : str, optional
        By default the name of the estimator.
    call : str, optional
        The lines that repeat the embedding, where you have better ones than can be told from the parameters.
    methods : bool
        Whether the other methods are fitted for comparison.
    powers : array-like of float, optional
        Diffusion times of the slider; by default 1, 2, 4, ... as far as anything is left. That of the embedding is
        always among them.
    max_points : int
        Points that are drawn one by one. Of more, a random sample of so many is, and all as the cells of a grid.

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
    _check_model(model)
    target = check_writable(path)
    n = model.kernel_.shape[0]
    for value, name in ((title, "title"), (call, "call")):
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} was given as {type(value).__name__}; give a str, or None.")
    if not isinstance(methods, (bool, np.bool_)):
        raise TypeError(f"methods={methods!r} was given; give True for all methods side by side, or False.")
    request = Request(
        title=title or f"{type(model).__name__} of {n:,} points",
        call=call or _call(model, target),
        names=read_names(model.sample_names_ if names is None and model._sample_names is not None else names, n),
        columns=read_columns(columns, n),
        methods=bool(methods),
        powers=None if powers is None else model._times(powers),
        max_points=check_count(max_points, "max_points", "a whole number of at least 2", least=2),
    )
    script = plotly_script()
    page = render(model, gather(model, request), script)
    with replacing(target) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return target


def _check_model(model: Any) -> None:
    if not isinstance(model, tuple(ESTIMATORS.values())):
        raise TypeError(f"{type(model).__name__} was given as model; give one of {', '.join(ESTIMATORS)}, fitted.")
    check_is_fitted(model)


@cache
def plotly_script() -> str:
    """The script of the plotting library, packed."""
    script: str = optional("plotly.offline", "write a report", "plot").get_plotlyjs()
    return compressed(script.encode())


def render(model: Any, contents: Contents, plotly: str) -> str:
    """The page as text.

    Parameters
    ----------
    model : fitted estimator
    contents : Contents
    plotly : str
        The script of the plotting library, packed.
    """
    assets = files(__package__) / "assets"
    shell, style, script = ((assets / name).read_text("utf-8") for name in ("page.html", "page.css", "page.js"))
    return Template(shell).substitute(
        title=html.escape(contents.request.title),
        lead=html.escape(_lead(model, contents)),
        style=style,
        notes="".join(f'<p class="notice">{html.escape(note)}</p>' for note in contents.notes),
        findings=_findings(contents),
        comparison=_comparison(contents),
        pairs=html.escape(_pairs_in_words(contents)),
        facts=_rows(_facts(model, contents)),
        parameters=_rows((name, repr(value)) for name, value in model.get_params(deep=False).items()),
        call=html.escape(contents.request.call),
        version=__version__,
        date=date.today().isoformat(),
        plotly=plotly,
        data=_packed(contents),
        script=script,
    )


def _lead(model: Any, contents: Contents) -> str:
    k = contents.n_components
    return (
        f"{type(model).__name__} of {contents.n_samples:,} points in {k} component{'s' * (k > 1)} at diffusion time "
        f"{contents.power:g}."
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
        f"{html.escape(contents.comparison.measured)}. Seconds are those of the embedding, the kernel being there.</p>"
    )


def _pairs_in_words(contents: Contents) -> str:
    pairs = contents.pairs
    outside = (pairs.embedded < pairs.low) | (pairs.embedded > pairs.high)
    return (
        f"{len(pairs.exact):,} pairs of random points: their exact diffusion distance, and how far apart they are in "
        "the embedding. The band is the 95% interval that the sketch, or an independent one, gives for the diffusion "
        f"distance; {outside.mean():.0%} of the distances in the embedding lie outside of theirs."
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
    """The lines that repeat an embedding; a seed that was drawn is written out."""
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
    """Stands for an array in the lines that repeat an embedding."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


def _packed(contents: Contents) -> str:
    packer = Packer()
    pairs, curves = contents.pairs, contents.curves
    near_low, near_high = in_logarithms(contents.near_low), in_logarithms(contents.near_high)
    ids = None if contents.request.names is None else [contents.name(row) for row in contents.drawn]
    manifest = {
        "n": contents.n_samples,
        "components": contents.n_components,
        "missing": MISSING,
        "mostColours": MOST_COLOURS,
        "chosen": contents.chosen,
        "powers": curves.powers.tolist(),
        "ids": ids,
        "drawn": packer.add(contents.drawn.astype(np.uint32)),
        "solid": packer.add(contents.solid.astype(np.uint32)),
        "columns": [
            _packed_column(column, span, contents, packer)
            for column, span in zip(contents.columns, contents.ranges, strict=True)
        ],
        "methods": [_packed_method(one, packer) for one in contents.shown],
        "figures": [dict(zip(("log", "central"), row[1:3], strict=True)) for row in contents.comparison.rows()],
        "pairs": {
            "names": [[contents.name(i), contents.name(j)] for i, j in pairs.points.tolist()],
            **{name: _numbers(getattr(pairs, name)) for name in ("exact", "embedded", "flat", "low", "high")},
        },
        "curves": {
            name: _numbers(getattr(curves, name))
            for name in ("entropy", "effective_dimension", "spectral_dimension", "eigenvalues", "values", "counts")
        },
        "near": {
            "k": contents.neighbours.shape[1],
            "points": packer.add(contents.neighbours.astype(np.uint32 if len(contents.drawn) > 1 << 16 else np.uint16)),
            "low": _packed_levels(*near_low, packer),
            "high": _packed_levels(*near_high, packer),
        },
    }
    return packer.packed(manifest)


def _packed_column(column: Column, span: tuple[float, float], contents: Contents, packer: Packer) -> dict[str, Any]:
    there = column.at(contents.drawn)
    if column.labels is not None:
        codes = np.where(there.values < 0, 65535, there.values).astype(np.uint16)
        return {"name": column.name, "labels": list(column.labels), "values": packer.add(codes)}
    packed = _packed_levels(*in_levels(there.values.astype(np.float64)), packer)
    return {"name": column.name, "labels": None, "range": list(span), **packed}


def _packed_levels(numbers: Any, low: float, step: float, packer: Packer) -> dict[str, Any]:
    return {"values": packer.add(numbers), "low": low, "step": step}


def _packed_method(one: Shown, packer: Packer) -> dict[str, Any]:
    return {
        "name": one.name,
        "flat": [_packed_coordinates(Y, packer) for Y in one.flat],
        "solid": None if one.solid is None else [_packed_coordinates(Y, packer) for Y in one.solid],
        "cells": None
        if one.rasters is None
        else [
            {
                "size": len(raster.counts),
                "counts": packer.add(raster.counts),
                "colours": [packer.add(colour) for colour in raster.colours],
            }
            for raster in one.rasters
        ],
        "distortion": _numbers(one.distortion),
    }


def _packed_coordinates(Y: Coordinates, packer: Packer) -> dict[str, Any]:
    """Each axis by itself."""
    return {"axes": [packer.add(axis) for axis in np.ascontiguousarray(Y.numbers.T)], "radius": Y.radius}


def _numbers(values: FloatArray) -> list[float | None]:
    """Numbers as JSON has them: neither NaN nor infinity, and not more digits than a plot shows."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]
