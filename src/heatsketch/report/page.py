"""The report as one HTML file: text and tables as HTML, and the data of the pictures for the script of the page."""

from __future__ import annotations

import base64
import gzip
import html
import json
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import scipy
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline

from .._utils.extras import optional
from .._utils.files import check_writable, write_whole
from .._version import __version__
from ..estimators._base import require_positive_weights
from ..kernel.options import check_count
from ..plotting import check_embedding
from .contents import Contents, Figures, gather
from .points import read_columns, read_names
from .words import FACTS, advice, percent, summary

__all__ = ["plotly_script", "write_report"]


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    *,
    names: Any = None,
    columns: Any = None,
    title: str | None = None,
    call: str | None = None,
    methods: bool = True,
    max_points: int = 20_000,
) -> Path:
    """Write a fitted embedding as one HTML file that works offline.

    The page says in three sentences what was embedded, how well the picture keeps neighbours and distances, and what
    looks wrong. It draws the embedding in two and three dimensions, with the names of groups, and shades points by how
    far their neighbours can be trusted. Below are distances with their intervals, other methods on the same kernel,
    curves over the diffusion times, and how the embedding was made.

    Parameters
    ----------
    model : fitted GaussianProcessEmbedding, DiffusionMaps or HeatSketch, or a pipeline that ends with one
        It is drawn as it is: its first components, or the principal axes of HeatSketch. For a picture in space, a model
        with fewer than three components is fitted to the same kernel with three, up to 50,000 points; HeatSketch goes
        on from the plane.
    path : str or path-like
        The file; nothing is written if the report fails.
    names : array-like of shape (n_samples,), optional
        Names of the samples; by default `sample_names_`: the nodes of a graph, the index of a frame, or row numbers.
    columns : pandas or polars frame, or dict of arrays of shape (n_samples,), optional
        Numbers or labels to colour by. Integers with at most 20 different values are labels; of more groups the 20
        largest have colours. None, NaN and infinite values are missing. Up to 36 features of the points are offered as
        well, of many points the first ones: 12 of 10,000. In a pipeline they are those of the data before its earlier
        steps, such as a table in its units, if these steps have an `inverse_transform`.
    title : str, optional
        By default the name of the estimator.
    call : str, optional
        Code or command that repeats the embedding; by default it is derived from the parameters.
    methods : bool
        Whether the other methods are fitted for comparison.
    max_points : int
        Largest number of points that are drawn individually. Larger data are drawn as cells, which become finer as the
        reader zooms in, with a random sample of this size over them.

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
    pipeline, earlier = model, None
    if isinstance(model, Pipeline):
        earlier, model = (model[:-1] if len(model) > 1 else None), model[-1]
    check_embedding(model)
    require_positive_weights(model, "a report")
    target = check_writable(path)
    n = model.kernel_.shape[0]
    known = model.sample_names_ if names is None and model._sample_names is not None else names
    options: dict[str, Any] = {
        "names": read_names(known, n),
        "columns": read_columns(columns, n),
        "earlier": earlier,
        "methods": methods,
        "max_points": check_count(max_points, "max_points", "an integer of at least 2", least=2),
    }
    plotly = plotly_script()  # first of all, since plotly may be missing
    title = title or f"{type(model).__name__} of {n:,} points"
    given = [name for name, value in {"names": names, "columns": columns}.items() if value is not None]
    call = call or _call(pipeline, target, given)
    page = _render(model, gather(model, **options), title=title, call=call, plotly=plotly)
    write_whole(target, page.encode("utf-8", "replace"))
    return target


@cache
def plotly_script() -> str:
    """The plotting library, compressed."""
    script: str = optional("plotly.offline", "write a report", "plot").get_plotlyjs()
    return _compressed(script.encode())


def _compressed(data: bytes) -> str:
    """Data compressed by gzip, in base85 with ":" in place of "<": nothing in it can be taken for markup."""
    return base64.b85encode(gzip.compress(data, 9, mtime=0)).decode("ascii").replace("<", ":")


def _packed(data: dict[str, Any]) -> bytes:
    """Data as JSON and arrays: the length of the JSON in 4 bytes, the JSON, and the bytes of all arrays.

    In the JSON an array is where its bytes begin after the JSON, and where they end.
    """
    arrays = bytearray()

    def placed(array: bytes) -> tuple[int, int]:
        start = len(arrays)
        arrays.extend(array)
        return start, len(arrays)

    text = json.dumps(data, allow_nan=False, default=placed).encode()
    return len(text).to_bytes(4, "little") + text + arrays


def _render(model: Any, contents: Contents, *, title: str, call: str, plotly: str) -> str:
    """The page as text."""
    assets = files(__package__) / "assets"
    template, style, script = ((assets / name).read_text("utf-8") for name in ("page.html", "page.css", "page.js"))
    return Template(template).substitute(
        title=html.escape(title),
        summary="".join(f"<p>{html.escape(sentence)}</p>" for sentence in summary(model, contents)),
        style=style,
        notes=html.escape(" ".join(contents.notes)),
        findings=_findings(contents),
        alone=" hidden" if len(contents.figures) == 1 else "",
        comparison=_comparison(contents),
        pairs=html.escape(contents.measured),
        facts=_rows(_facts(model), FACTS),
        parameters=_rows((name, repr(value)) for name, value in model.get_params(deep=False).items()),
        call=html.escape(call),
        version=__version__,
        date=date.today().isoformat(),
        plotly=plotly,
        data=_compressed(_packed(contents.data)),
        script=script,
    )


def _findings(contents: Contents) -> str:
    parts = []
    for one in contents.diagnosis:
        mark, word = (" harmful", "<strong>Harmful.</strong> ") if one.harmful else ("", "")
        parts.append(
            f'<div class="finding{mark}"><p>{word}{html.escape(one.message)}</p>'
            f"<p><em>What to do:</em> {html.escape(advice(one))}</p></div>"
        )
    return "\n".join(parts or ['<p class="finding fine">Nothing looks wrong.</p>'])


def _comparison(contents: Contents) -> str:
    """A table of the methods, with figures that need no knowledge of them."""
    titles = ("method", "near neighbours", "right order", "typical error", "unevenness")
    head = "".join(f'<th scope="col">{title}</th>' for title in titles)
    body = "".join(
        f'<tr><th scope="row">{_breakable(one.name)}</th>'
        + "".join(f"<td>{cell}</td>" for cell in (percent(one.near), _order(one), percent(one.median_error)))
        + f"<td>{one.distortion:.2f}</td></tr>"
        for one in contents.figures
    )
    return f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"


def _order(figures: Figures) -> str:
    return "-" if np.isnan(figures.in_order) else percent(figures.in_order)


def _breakable(name: str) -> str:
    """The name of a class, which may be broken between its words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "<wbr>", name)


def _facts(model: Any) -> Iterable[tuple[str, str]]:
    yield "estimator", type(model).__name__
    yield "features", f"{model.n_features_in_:,}"
    yield "components", str(model.n_components_)
    yield from model._kernel_facts(model.kernel_, model.power_)
    if hasattr(model, "seed_"):
        yield "seed", str(model.seed_)
    yield from (
        ("heatsketch", __version__),
        ("Python", platform.python_version()),
        ("NumPy", np.__version__),
        ("SciPy", scipy.__version__),
        ("scikit-learn", sklearn.__version__),
    )


def _rows(pairs: Iterable[tuple[str, str]], meanings: Mapping[str, str] | None = None) -> str:
    """Rows of a table, with the meaning of a term under it."""
    rows = []
    for name, value in pairs:
        small = f"<small>{html.escape(meanings[name])}</small>" if meanings and name in meanings else ""
        rows.append(f'<tr><th scope="row">{html.escape(name)}{small}</th><td>{html.escape(value)}</td></tr>')
    return "".join(rows)


def _call(model: Any, target: Path, given: Sequence[str]) -> str:
    """Code that repeats an embedding or a pipeline, with the seed that was drawn."""
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    # The public module of a private one: sklearn.preprocessing, not sklearn.preprocessing._data.
    homes = {type(step).__name__: type(step).__module__.partition("._")[0] for step in steps if not _is_ours(step)}
    imports = ["import heatsketch as hs", *(f"from {home} import {name}" for name, home in homes.items())]
    made = ", ".join(_code(step) for step in steps)
    if isinstance(model, Pipeline):
        imports.append("from sklearn.pipeline import make_pipeline")
        made = f"make_pipeline({made})"
    X = "X" if steps[-1]._labels is None else "X, y"
    arguments = "".join(f", {name}={name}" for name in given)
    written = f"hs.write_report(model, {target.name!r}{arguments})"
    return "\n".join([*imports, "", f"model = {made}.fit({X})", written])


def _is_ours(step: Any) -> bool:
    return type(step).__module__.startswith("heatsketch.")


def _code(step: Any) -> str:
    """An estimator as code, with the seed that was drawn."""
    again = clone(step) if isinstance(step, BaseEstimator) else step
    if hasattr(step, "seed_"):
        again.set_params(random_state=step.seed_)
    code = again.__repr__(N_CHAR_MAX=1_000_000) if isinstance(step, BaseEstimator) else repr(step)
    return f"{'hs.' if _is_ours(step) else ''}{code}"
