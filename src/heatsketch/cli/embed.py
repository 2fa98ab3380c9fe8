"""``heatsketch embed``, ``transform``, ``extend`` and ``report``: from a file of data to an embedding and a page."""

from __future__ import annotations

import shlex
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._utils.text import duration
from .console import note, print_json, warned
from .options import ConsoleOptions, EstimatorOptions, InputOptions, Method, make_estimator, takes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..io import Data
    from ..tables import TableEncoder

__all__ = [
    "Input",
    "Weight",
    "embed",
    "extend",
    "keep_aside",
    "load",
    "read_input",
    "report",
    "transform",
    "weights_in",
]

Input = Annotated[str, typer.Argument(metavar="INPUT", help="File of points or of a graph; - for standard input.")]
# Rows of an array by which the units of its columns are judged.
_ROWS = 10_000
# Attribute of the encoder in a model file: the column that named the rows.
_ID_NAME = "id_name_"
# Attribute of the model of an h5ad file: what was embedded, as `source_of` gives it.
_SOURCE = "source_"
# Seconds in which a row of an embedding is written, of a typical table.
_WRITING = 1e-5
# Seconds in which a cell is tested; all of them take about as long as their embedding.
_TESTING = 1.5e-4
_OUTPUT = typer.Option(
    "--output",
    "-o",
    metavar="OUTPUT",
    help="Where the embedding is written: csv, tsv, parquet, npy, npz or h5ad; - for csv on standard output.",
    rich_help_panel="Output",
)
Stored = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `embed --save` wrote.")]
Weight = Annotated[
    str | None,
    typer.Option(
        "--weight",
        metavar="NAME",
        help="Column of sample weights, such as counts of equal rows; it is kept aside.",
        rich_help_panel="Input",
        show_default=False,
    ),
]


@takes(reads=InputOptions, options=EstimatorOptions, console=ConsoleOptions)
def embed(
    *,
    source: Input,
    output: Annotated[str | None, _OUTPUT] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="PAGE.html", help="Write a report as one HTML page.", rich_help_panel="Output"
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save", metavar="MODEL", help="Save the model, to embed new points later.", rich_help_panel="Output"
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option(help="Title of the page.", rich_help_panel="Output", show_default=False)
    ] = None,
    weight: Weight = None,
    classes: Annotated[
        str | None,
        typer.Option(
            "--classes",
            metavar="NAME",
            help="Column of classes that HeatSketch separates, empty where unknown; they enter the embedding.",
            rich_help_panel="Input",
            show_default=False,
        ),
    ] = None,
    method: Method = "heatsketch",
    reads: InputOptions,
    options: EstimatorOptions,
    console: ConsoleOptions,
) -> None:
    """Embed the rows of a table, or the vertices of a graph.

    Numeric columns are embedded, except those given by --label, --id or --drop; they are standardised if their units
    differ. Text columns are kept aside, that is, written beside the embedding, unless --categorical embeds them. No
    bandwidth and no diffusion time need to be chosen.

    [bold]From a table to a page:[/] heatsketch embed digits.csv --label digit --report page.html

    [bold]Ten dimensions for a classifier:[/] heatsketch embed digits.csv --label digit -k 10 -o embedding.csv

    [bold]The paper's method:[/] heatsketch embed digits.csv --label digit --method gaussian-process -k 32 -p 4 -o y.npz

    [bold]A model for new points:[/] heatsketch embed digits.csv --label digit -o seen.csv --save digits.heatsketch

    [bold]Categories and missing values:[/] heatsketch embed table.csv --categorical all --impute median -o y.csv

    [bold]In a pipe:[/] heatsketch embed - --format csv --label digit -o - < digits.csv > embedding.csv
    """
    from .._utils.progress import shown, task  # noqa: PLC0415
    from ..io.models import save_model  # noqa: PLC0415
    from ..io.writers import check_output  # noqa: PLC0415
    from ..kernel.cost import here, page_steps  # noqa: PLC0415

    _check_targets(source, output, page, save, console)
    if classes is not None and method != "heatsketch":
        raise ValueError(f"--classes does not apply to --method {method}; use heatsketch, which separates classes.")
    labels = reads.label or ()
    reads = keep_aside(source, keep_aside(source, reads, "weight", weight), "classes", classes)
    data = read_input(source, reads)
    y = None if classes is None else _known_classes(data, classes)
    if not data.is_graph and data.encoder is None and not {"affinity", "metric"} & options.given.keys():
        _note_units(data)
    tested = output is not None and check_output(output, cells=data.source is not None) == "h5ad"
    model = make_estimator(method, options, data)
    if y is not None:
        model.set_params(use_labels=True)
    if data.source is not None:
        setattr(model, _SOURCE, options.embedded(data))
    if data.encoder is not None:
        setattr(data.encoder, _ID_NAME, data.id_name)
    step, each = ("testing and writing the results", _TESTING) if tested else ("writing the results", _WRITING)
    writing = [(step, data.X.shape[0] * each)] if save is not None or output is not None else []
    with shown(not console.quiet, later=[*writing, *([] if page is None else here(page_steps(data.X.shape[0])))]):
        start = time.perf_counter()
        model.fit(data.points, y, sample_weight=weights_in(data, weight))
        seconds = time.perf_counter() - start
        model._sample_names = None if data.names is None else [str(name) for name in data.names]
        with task(step) if writing else nullcontext():
            if save is not None:  # first: everything else can be made from the model
                save_model(_with_encoder(model, data.encoder), save)
            if output is not None:
                keys = {"method": method, "weights_key": weight, "classes_key": classes}
                params = _recorded(keys, model, options, data) if tested else None
                _write(output, model, model.embedding_, data, params)
        if page is not None:
            title = title or ("Embedding" if source == "-" else Path(source).name)
            _write_page(_with_encoder(model, data.encoder), page, data, title, labels)
    written = {"output": output, "report": page, "model": save}
    outcome = _summary(source, data, model, seconds) | {k: None if v is None else str(v) for k, v in written.items()}
    if console.as_json:
        print_json(outcome | {"warnings": warned})
    else:
        note(_describe(outcome))


@takes(reads=InputOptions, console=ConsoleOptions)
def transform(
    *,
    stored: Stored,
    source: Input,
    output: Annotated[str, _OUTPUT],
    reads: InputOptions,
    console: ConsoleOptions,
) -> None:
    """Embed new points with a saved model, without a new fit.

    Columns are matched by name with those of the fit and encoded in the same way. All others are kept aside: they are
    written beside the embedding.

    [bold]Embed new rows:[/] heatsketch transform digits.heatsketch new.csv --label digit -o placed.csv
    """
    from .._utils.progress import shown  # noqa: PLC0415
    from ..io.writers import check_output  # noqa: PLC0415

    _check_targets(source, output, None, None, console)
    _, model, data, points = _new_rows(stored, source, reads)
    check_output(output, cells=data.source is not None)
    if model._sample_names is not None and data.names is None:
        _add_note(data, f"{source}: no ids, unlike the rows of the fit; row numbers are written in their place")
    model.set_output(transform="default")
    with shown(not console.quiet):
        Y = _embed_vertices(model, data, source) if data.is_graph else model.transform(points)
    _write(output, model, Y, data)
    if console.as_json:
        outcome = {"model": str(stored), "input": source, "rows": len(Y), "components": Y.shape[1], "output": output}
        print_json(outcome | {"notes": data.notes, "warnings": warned})
    else:
        note(f"Wrote {output}: {len(Y)} rows, {Y.shape[1]} components.")


@takes(reads=InputOptions, console=ConsoleOptions)
def extend(
    *,
    stored: Stored,
    source: Input,
    save: Annotated[
        Path, typer.Option("--save", metavar="MODEL", help="Where the new model is saved.", rich_help_panel="Output")
    ],
    output: Annotated[str | None, _OUTPUT] = None,
    weight: Weight = None,
    reads: InputOptions,
    console: ConsoleOptions,
) -> None:
    """Add rows to a saved model; earlier rows stay as close to their positions as the new data allow.

    Columns are matched by name with those of the fit and encoded in the same way. -o writes the embedding of all rows,
    earlier ones first, with their ids.

    [bold]Add the rows of today:[/] heatsketch extend digits.heatsketch today.csv --save digits.heatsketch
    """
    from .._utils.progress import shown  # noqa: PLC0415
    from ..io.models import save_model  # noqa: PLC0415
    from ..io.writers import check_output  # noqa: PLC0415

    _check_targets(source, output, None, save, console)
    if output is not None:
        check_output(output, cells=False)
    reads = keep_aside(source, reads, "weight", weight)
    encoder, model, data, points = _new_rows(stored, source, reads, kept=False)
    if data.is_graph or "precomputed" in (model.affinity, model.metric):
        raise ValueError(
            "extend adds points to a model of points, not of a graph or a precomputed matrix; embed all rows again."
        )
    if model._sample_names is not None and data.names is None:
        raise ValueError(f"{stored} has ids, and the rows of {source} have none; name their column with --id.")
    if model._sample_names is not None:
        _check_new_ids(stored, source, model._sample_names, data.names)
    with shown(not console.quiet):
        model.extend(points, weights_in(data, weight))
    save_model(_with_encoder(model, encoder), save)
    if output is not None:
        _write(output, model, model.embedding_, replace(data, names=model._sample_names, columns={}, source=None))
    n, moved = len(model.embedding_), float(model.moved_.mean())
    outcome = {"model": str(save), "input": source, "rows": n, "added": data.X.shape[0], "moved": moved}
    if console.as_json:
        print_json(outcome | {"output": output, "notes": data.notes, "warnings": warned})
    else:
        written = f"{save}" if output in (None, "-") else f"{save} and {output}"
        note(
            f"Wrote {written}: {n} rows, {data.X.shape[0]} of them new; earlier rows moved by {moved:.2g} of the "
            "embedding's radius, on average."
        )


@takes(reads=InputOptions, console=ConsoleOptions)
def report(
    *,
    stored: Stored,
    page: Annotated[Path, typer.Option("--output", "-o", metavar="PAGE.html", help="Where the page is written.")],
    source: Annotated[
        str | None,
        typer.Option("--data", metavar="INPUT", help="The file that was embedded, for its ids and columns."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default=False)] = None,
    reads: InputOptions,
    console: ConsoleOptions,
) -> None:
    """Write a report on a saved model, as one HTML page that needs no network.

    [bold]From a model to a page:[/] heatsketch report digits.heatsketch --data digits.csv --label digit -o page.html
    """
    from .._utils.progress import shown  # noqa: PLC0415

    _check_targets(source, None, page, None, console)
    if source is None and reads.given:
        raise ValueError(f"--{next(iter(reads.given))} needs --data, the file that was embedded.")
    encoder, model = load(stored, f"use `heatsketch embed {stored} --report {page}`")
    data = None if source is None else read_input(source, reads, encoder)
    if data is not None and data.X.shape[0] != model.embedding_.shape[0]:
        raise ValueError(
            f"{source} has {data.X.shape[0]} rows, and {stored} was fitted to {model.embedding_.shape[0]}; give the "
            "file that was embedded."
        )
    with shown(not console.quiet):
        _write_page(_with_encoder(model, encoder), page, data, title or stored.stem, reads.label or ())
    if console.as_json:
        print_json({"model": str(stored), "report": str(page)})
    else:
        note(f"Wrote {page}; open it in a browser.")


def _check_targets(
    source: str | None, output: str | None, page: Path | None, save: Path | None, console: ConsoleOptions
) -> None:
    """Check before any work that the outputs can be written and do not replace the input."""
    from .._utils.files import check_writable  # noqa: PLC0415
    from ..io.writers import check_output  # noqa: PLC0415

    if output is None and page is None and save is None:
        raise ValueError("no output was given; use -o for a file, --report for a page or --save for a model.")
    if output == "-" and console.as_json:
        raise ValueError("-o - and --json both write to standard output; choose one.")
    if output is not None:
        check_output(output, cells=True)
    for path in (page, save):
        if path is not None:
            check_writable(path)
    if page is not None:
        from ..report.page import plotly_script  # noqa: PLC0415

        plotly_script()  # raises ImportError if a library for the report is missing
    named = [Path(path).resolve() for path in (output, page, save) if path is not None and path != "-"]
    # An embedding is added to an h5ad file, which keeps everything else.
    added_to = source is not None and source == output and source.endswith(".h5ad")
    if source is not None and Path(source).resolve() in named and not added_to:
        raise ValueError(f"{source} is the input, which would be overwritten; choose another output.")
    if twice := [path for path in named if named.count(path) > 1]:
        raise ValueError(f"two outputs have the name {twice[0]}; give each its own.")


def _embed_vertices(model: Any, data: Data, source: str) -> Any:
    """Embed the vertices of a graph: known ones by name, new ones by their edges to known ones."""
    import numpy as np  # noqa: PLC0415
    import pandas as pd  # noqa: PLC0415
    from scipy import sparse  # noqa: PLC0415

    rows = pd.Index([str(name) for name in model.sample_names_]).get_indexer(data.names)  # -1 for new vertices
    known = rows >= 0
    if model.affinity != "precomputed" or not known.any():
        raise ValueError(f"{source} is a graph, and the model was not fitted to any of its vertices.")
    Y = model.embedding_[rows]
    if not known.all():
        n_known, n_fitted = int(known.sum()), len(model.embedding_)
        place = sparse.csr_array((np.ones(n_known), (np.arange(n_known), rows[known])), shape=(n_known, n_fitted))
        Y[~known] = model.transform(data.X[~known][:, known] @ place)
    return Y


def read_input(source: str, reads: InputOptions, encoder: TableEncoder | None = None, *, kept: bool = True) -> Data:
    """Read INPUT, with notes on how it was interpreted; tables by the encoder of a model, if it has one.

    `kept` says whether columns that are not embedded are kept aside, that is, written beside the embedding.
    """
    from ..io import read  # noqa: PLC0415

    if encoder is not None:
        _refuse(reads, "standardize", "categorical", "dates", "impute", "only")
    known_id = getattr(encoder, _ID_NAME, None)
    data = read(source, replace(reads.reading, encoder=encoder, kept=kept, id_of_fit=known_id))
    for remark in data.notes:
        note(remark)
    return data


def _check_new_ids(stored: Path, source: str, known: Sequence[Any], new: Any) -> None:
    """Raise ValueError if the model has ids of the new rows already; blank ids are none."""
    held = {str(name) for name in known}
    if again := [name for name in map(str, new) if name.strip() and name in held]:
        raise ValueError(
            f"{len(again)} of the {len(new)} rows of {source} have ids that {stored} has already, such as "
            f"{again[0]!r}; leave these rows out."
        )


def _refuse(reads: InputOptions, *names: str) -> None:
    """Raise ValueError for options that do not apply to new rows."""
    for name in names:
        if name in reads.given:
            raise ValueError(f"--{name} was decided when the model was fitted; leave it out.")


def _new_rows(
    stored: Path, source: str, reads: InputOptions, *, kept: bool = True
) -> tuple[TableEncoder | None, Any, Data, Any]:
    """A saved model with its encoder, the data in a file, and the points that they are to the model."""
    from ..io import FORMATS, format_of  # noqa: PLC0415

    encoder, model = load(stored, "MODEL comes first, then INPUT")
    _refuse(reads, "standardize", "categorical", "dates", "impute")
    named = hasattr(model, "feature_names_in_")
    kind = format_of(source, reads.format)
    is_table, named_by_key = ("only" in FORMATS[kind].options), ("key" in FORMATS[kind].options)
    if kind == "h5ad":
        _check_key(stored, model, source, reads.key)
    if encoder is None and is_table:  # the model was fitted to an array, as it is
        features = [str(name) for name in getattr(model, "feature_names_in_", ())]
        reads = replace(reads, only=reads.only or features, standardize=False)
    data = read_input(source, reads, encoder, kept=kept)
    if kind == "h5ad":
        data = replace(data, X=data.X[:, : getattr(model, _SOURCE, {}).get("n_pcs")])
    expected = (model if encoder is None else encoder).n_features_in_
    if not is_table and not data.is_graph and data.X.shape[1] != expected:
        raise ValueError(
            f"{source} has {data.X.shape[1]:,} columns, and {stored} was fitted to {expected:,}; give the columns of "
            "the fit in their order" + (", or name the ones that were embedded with --key." if named_by_key else ".")
        )
    if encoder is not None and not is_table:  # an array with the columns of the table, in their order
        return encoder, model, data, encoder.transform(data.X)
    return encoder, model, data, data.points if named else data.X


def _recorded(keys: dict[str, Any], model: Any, options: EstimatorOptions, data: Data) -> dict[str, Any]:
    """The parameters of an embedding of cells, as `heatsketch.scanpy.heat_sketch` records them."""
    names = {"n_components", "power", "random_state", *options.parameters(data)}
    names |= set() if data.is_graph else {"n_neighbors", "bandwidth"}
    chosen = {name: value for name, value in model.get_params(deep=False).items() if name in names}
    embedded: dict[str, Any] = getattr(model, _SOURCE)
    return keys | {"random_state": 0} | embedded | chosen


def _check_key(stored: Path, model: Any, source: str, key: str | None) -> None:
    """Raise ValueError unless --key names what the model of an h5ad file was fitted to, if that is known."""
    fitted = getattr(model, _SOURCE, {})
    known = fitted.get("use_rep")
    if "neighbors_key" in fitted:
        raise ValueError(
            f"{stored} was fitted to the graph of uns[{fitted['neighbors_key']!r}], in which new cells have no place; "
            "fit it to a representation, which `embed --key` names."
        )
    if key is None:
        advice = f"name what {stored} was fitted to with --key"
        if known is not None:
            advice = f"{stored} was fitted to {known!r}; use --key {known}"
        raise ValueError(
            f"{advice}, if {source} has it in the same space. A PCA or an integration of the new cells alone gives "
            "another space; heatsketch.scanpy.place_cells projects new cells on the PCA of a reference."
        )
    if known not in (None, key):
        raise ValueError(
            f"{stored} was fitted to {known!r}, and --key {key} is another space; use --key {known} if {source} has it "
            "in the same space."
        )


def keep_aside(source: str, reads: InputOptions, option: str, column: str | None) -> InputOptions:
    """The options with a column of weights or classes kept aside."""
    from ..io import FORMATS, format_of  # noqa: PLC0415

    if column is None:
        return reads
    name = format_of(source, reads.format)
    if "label" not in FORMATS[name].options:
        raise ValueError(f"--{option} does not apply to {name} files, which have no columns; leave it out.")
    if column in {reads.id, *(reads.label or ()), *(reads.drop or ()), *(reads.only or ())}:
        raise ValueError(f"--{option} {column} was also given by another option for columns; choose one.")
    return replace(reads, label=[*(reads.label or ()), column])


def _known_classes(data: Data, column: str) -> Any:
    """The column of classes as integers, -1 where it is empty."""
    import pandas as pd  # noqa: PLC0415

    from .._utils.text import listed  # noqa: PLC0415
    from ..io.tables import MISSING  # noqa: PLC0415

    given = pd.Series(data.columns[column])
    codes, names = pd.factorize(given.mask(given.isin(["-1", -1, *MISSING])))
    if len(names) < 2:
        raise ValueError(
            f"--classes {column} names {listed(names) or 'no classes'}; it must name two classes or more. Use --label "
            "for a column to colour by."
        )
    return codes


def weights_in(data: Data, weight: str | None) -> Any:
    """The column of weights as positive numbers; None without one."""
    import pandas as pd  # noqa: PLC0415

    from ..io.errors import row_name  # noqa: PLC0415

    if weight is None:
        return None
    numbers = pd.to_numeric(pd.Series(data.columns[weight]), errors="coerce").to_numpy(dtype=float, na_value=0.0)
    if len(wrong := (~(numbers > 0)).nonzero()[0]):
        given = list(data.columns[weight])[wrong[0]]
        raise ValueError(
            f"{len(wrong)} of {len(numbers)} values of --weight {weight} are not positive numbers, the first {given!r} "
            f"in {row_name(wrong[0], data.names)}; correct or remove these rows."
        )
    return numbers


def _note_units(data: Data) -> None:
    """Add a note if the columns of an array, which are not standardised, seem to have different units."""
    from scipy.sparse import issparse  # noqa: PLC0415

    from .._utils.units import units_of  # noqa: PLC0415

    X = data.X
    if not issparse(X) and (units := units_of(X[:: -(-X.shape[0] // _ROWS)])).mixed:
        _add_note(data, f"columns are not standardised, although {units.reason.removeprefix('as ')}.")


def _add_note(data: Data, remark: str) -> None:
    """Print a note and add it to those of the data."""
    data.notes.append(remark)
    note(remark)


def _with_encoder(model: Any, encoder: TableEncoder | None) -> Any:
    """A model of a table together with its encoder, for new rows."""
    from sklearn.pipeline import Pipeline  # noqa: PLC0415

    if encoder is None:
        return model
    return Pipeline([("table", encoder), ("embedding", model)])


def load(stored: Path, otherwise: str = "give a file that `embed --save` wrote") -> tuple[TableEncoder | None, Any]:
    """The encoder of a saved model, None if it has none, and its embedding; `otherwise` is said of a file of data."""
    from sklearn.pipeline import Pipeline  # noqa: PLC0415

    from ..io import format_of  # noqa: PLC0415
    from ..io.models import load_model  # noqa: PLC0415

    try:
        model = load_model(stored)
    except ValueError as error:
        try:
            kind = format_of(stored)
        except ValueError:
            raise error from None
        raise ValueError(f"{stored} is a {kind} file of data, not a model; {otherwise}.") from error
    return (model[0], model[-1]) if isinstance(model, Pipeline) else (None, model)


def _write(output: str, model: Any, Y: Any, data: Data, params: dict[str, Any] | None = None) -> None:
    """Write an embedding of the rows of `data`; an h5ad file with `params` gets a record of how it was made."""
    from ..io.cells import record_of  # noqa: PLC0415
    from ..io.writers import write  # noqa: PLC0415

    record, trust = (None, None) if params is None else record_of(model, params)
    about = {"names": data.names, "columns": data.columns, "cells": data.source, "id_name": data.id_name}
    write(output, Y, list(model.get_feature_names_out()), record=record, trust=trust, **about)


def _write_page(model: Any, page: Path, data: Data | None, title: str, labels: Sequence[str]) -> None:
    """Write the page, which is coloured by the first column: the first of the labels."""
    from ..report import write_report  # noqa: PLC0415

    known: dict[str, Any] = {}
    if data is not None:
        known = {"names": data.names, "columns": {name: data.columns[name] for name in labels} | data.columns}
    write_report(model, page, title=title, call=shlex.join(["heatsketch", *sys.argv[1:]]), **known)


def _summary(source: str, data: Data, model: Any, seconds: float) -> dict[str, Any]:
    """The result as a dict, for --json."""
    import numpy as np  # noqa: PLC0415

    from ..linalg.filters import MultiscaleFilter, longest  # noqa: PLC0415

    kernel, power = model.kernel_, model.power_
    bandwidth = None if model.bandwidth_ is None else float(np.median(model.bandwidth_))
    return {
        "input": source,
        "rows": data.X.shape[0],
        "columns": data.X.shape[1],
        "method": type(model).__name__,
        "components": model.n_components_,
        "power": "multiscale" if isinstance(power, MultiscaleFilter) else power,
        "longest_time": longest(power),
        "bandwidth": bandwidth,
        "bandwidth_rule": kernel.bandwidth_rule,
        "kernel": kernel.affinity.description,
        "seed": getattr(model, "seed_", None),
        "seconds": round(seconds, 3),
        "notes": data.notes,
    }


def _describe(outcome: dict[str, Any]) -> str:
    written = [outcome[key] for key in ("output", "report", "model") if outcome[key] not in (None, "-")]
    every = outcome["power"] == "multiscale"
    times = f"diffusion times 1 to {outcome['longest_time']:g}" if every else f"diffusion time {outcome['power']:g}"
    return (
        f"Embedded {outcome['rows']:,} rows in {outcome['components']} dimensions by {outcome['method']} in "
        f"{duration(outcome['seconds'])}: {outcome['kernel']}, {times}."
        + (f" Wrote {', '.join(written)}." if written else "")
        + (f" Open {outcome['report']} in a browser." if outcome["report"] is not None else "")
    )
