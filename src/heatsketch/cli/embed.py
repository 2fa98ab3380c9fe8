"""``heatsketch embed``, ``transform`` and ``report``: from a file of data to an embedding, a model and a page."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .console import note, print_json
from .options import InputOptions, KernelOptions, MethodOptions, VoiceOptions, takes

if TYPE_CHECKING:
    from ..readers import Data

__all__ = ["embed", "report", "transform"]

Input = Annotated[str, typer.Argument(metavar="INPUT", help="File of points or of a graph; - for standard input.")]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="OUTPUT",
        help="Where the embedding is written: csv, tsv, parquet, npy, npz or h5ad; - for csv on standard output.",
        rich_help_panel="Output",
    ),
]


@takes(reads=InputOptions, method=MethodOptions, kernel=KernelOptions, voice=VoiceOptions)
def embed(
    *,
    source: Input,
    output: Output = None,
    page: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="PAGE.html", help="Write a page to look at and hand on.", rich_help_panel="Output"
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save", metavar="MODEL", help="Save the model, to place new points with later.", rich_help_panel="Output"
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option(help="Title of the page.", rich_help_panel="Output", show_default=False)
    ] = None,
    reads: InputOptions,
    method: MethodOptions,
    kernel: KernelOptions,
    voice: VoiceOptions,
) -> None:
    """Embed the rows of a file, or the vertices of a graph.

    Columns of words are kept aside and written beside the embedding; columns of numbers are embedded unless --label,
    --id or --drop says otherwise. Bandwidth and diffusion time are chosen from the data.

    [bold]From a table to a page:[/] heatsketch embed digits.csv --label digit --report page.html

    [bold]Ten dimensions for a classifier:[/] heatsketch embed digits.csv --label digit -k 10 -o embedding.csv

    [bold]The paper's method:[/] heatsketch embed digits.csv --label digit --method gaussian-process -k 32 -p 4 -o y.npz

    [bold]A model for points to come:[/] heatsketch embed digits.csv --label digit -o seen.csv --save digits.heatsketch

    [bold]In a pipe:[/] heatsketch embed - --format csv --label digit -o - < digits.csv > embedding.csv
    """
    from ..writers import check_output, write  # noqa: PLC0415

    _check_targets(output, page, save, voice)
    data = _read(source, reads, voice)
    if output is not None:
        check_output(output, cells=data.source is not None)
    model = method.estimator(kernel, data, verbose=not voice.quiet)
    if page is not None:
        _require_report()
    start = time.perf_counter()
    model.fit(data.points)
    seconds = time.perf_counter() - start
    if output is not None:
        names = list(model.get_feature_names_out())
        write(output, model.embedding_, names, names=data.names, columns=data.columns, cells=data.source)
    if save is not None:
        from ..models import save_model  # noqa: PLC0415

        save_model(model, save)
    if page is not None:
        _write_page(model, page, data, title or f"{Path(source).name if source != '-' else 'Embedding'}")
    written = {"output": output, "report": page, "model": save}
    outcome = _summary(source, data, model, seconds) | {k: None if v is None else str(v) for k, v in written.items()}
    if voice.as_json:
        print_json(outcome)
    else:
        note(_in_words(outcome), voice.quiet)


@takes(reads=InputOptions, voice=VoiceOptions)
def transform(
    *,
    stored: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `embed --save` wrote.")],
    source: Input,
    output: Output = None,
    reads: InputOptions,
    voice: VoiceOptions,
) -> None:
    """Place new points with a saved model, without fitting anything.

    Columns are matched by name with those that the model was fitted to; all others are kept aside.

    [bold]Place new rows:[/] heatsketch transform digits.heatsketch new.csv --label digit -o placed.csv
    """
    from ..models import load_model  # noqa: PLC0415
    from ..readers import read  # noqa: PLC0415
    from ..readers.data import check_known  # noqa: PLC0415
    from ..writers import check_output, write  # noqa: PLC0415

    if output is None:
        raise ValueError("no output was named; use -o FILE, or -o - for standard output.")
    _check_targets(output, None, None, voice)
    model = load_model(stored)
    data = read(source, reads.reading_of(list(getattr(model, "feature_names_in_", ()))))
    if data.features is not None and hasattr(model, "feature_names_in_"):
        check_known(model.feature_names_in_, data.features)
    check_output(output, cells=data.source is not None)
    points = data.points if hasattr(model, "feature_names_in_") else data.X
    model.set_params(verbose=not voice.quiet).set_output(transform="default")
    Y = model.transform(points)
    names = list(model.get_feature_names_out())
    write(output, Y, names, names=data.names, columns=data.columns, cells=data.source)
    if voice.as_json:
        print_json({"model": str(stored), "input": source, "rows": len(Y), "components": Y.shape[1], "output": output})
    else:
        note(f"Wrote {output}: {len(Y)} rows, {Y.shape[1]} components.", voice.quiet)


@takes(reads=InputOptions, voice=VoiceOptions)
def report(
    *,
    stored: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `embed --save` wrote.")],
    page: Annotated[Path, typer.Option("--output", "-o", metavar="PAGE.html", help="Where the page is written.")],
    source: Annotated[
        str | None,
        typer.Option("--data", metavar="INPUT", help="The file that was embedded, for its ids and columns."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default=False)] = None,
    reads: InputOptions,
    voice: VoiceOptions,
) -> None:
    """Write the page of a saved model: one HTML file to look at and hand on, which needs no network.

    [bold]From a model to a page:[/] heatsketch report digits.heatsketch --data digits.csv --label digit -o page.html
    """
    from ..models import load_model  # noqa: PLC0415

    _check_targets(None, page, None, voice)
    _require_report()
    model = load_model(stored)
    data = None if source is None else _read(source, reads, voice)
    if data is not None and data.X.shape[0] != model.embedding_.shape[0]:
        raise ValueError(
            f"{source} has {data.X.shape[0]} rows, and {stored} was fitted to {model.embedding_.shape[0]}; give the "
            "file that was embedded."
        )
    model.set_params(verbose=not voice.quiet)
    _write_page(model, page, data, title or stored.stem)
    if voice.as_json:
        print_json({"model": str(stored), "report": str(page)})
    else:
        note(f"Wrote {page}.", voice.quiet)


def _check_targets(output: str | None, page: Path | None, save: Path | None, voice: VoiceOptions) -> None:
    """Refuse outputs that cannot be written, before any work."""
    from ..outputs import writable  # noqa: PLC0415
    from ..writers import check_output  # noqa: PLC0415

    if output is None and page is None and save is None:
        raise ValueError("nothing would be written; name a file with -o, a page with --report or a model with --save.")
    if output == "-" and voice.as_json:
        raise ValueError("-o - and --json both write to standard output; choose one.")
    if output is not None:
        check_output(output, cells=True)
    for path in (page, save):
        if path is not None:
            writable(path)
    named = [str(Path(path).resolve()) for path in (output, page, save) if path is not None and path != "-"]
    if len(set(named)) < len(named):
        raise ValueError(f"{named[0]} was named for two outputs; each needs a file of its own.")


def _require_report() -> None:
    """Say which library is missing before any work, rather than after it."""
    from ..reports import require_plotly  # noqa: PLC0415

    require_plotly()


def _read(source: str, reads: InputOptions, voice: VoiceOptions) -> Data:
    from ..readers import read  # noqa: PLC0415

    data = read(source, reads.reading)
    for remark in data.notes:
        note(remark, voice.quiet)
    return data


def _write_page(model: Any, page: Path, data: Data | None, title: str) -> None:
    from ..reports import write_report  # noqa: PLC0415

    known = {} if data is None else {"names": data.names, "columns": data.columns}
    write_report(model, page, title=title, call=shlex.join(["heatsketch", *sys.argv[1:]]), **known)


def _summary(source: str, data: Data, model: Any, seconds: float) -> dict[str, Any]:
    """What was done, for programs."""
    import numpy as np  # noqa: PLC0415

    kernel, choice = model.kernel_, model.power_choice_
    bandwidth = None if model.bandwidth_ is None else float(np.median(model.bandwidth_))
    found = {
        "input": source,
        "rows": data.X.shape[0],
        "columns": data.X.shape[1],
        "method": type(model).__name__,
        "components": model.n_components_,
        "power": model.power_,
        "power_rule": "given" if choice is None else choice.rule,
        "bandwidth": bandwidth,
        "bandwidth_rule": kernel.bandwidth_rule,
        "kernel": kernel.affinity.description,
        "seed": getattr(model, "seed_", None),
        "seconds": round(seconds, 3),
        "notes": data.notes,
    }
    if hasattr(model, "distortion_"):
        found["log_distortion"] = model.distortion_.log
    return found


def _in_words(outcome: dict[str, Any]) -> str:
    written = [outcome[key] for key in ("output", "report", "model") if outcome[key] not in (None, "-")]
    epsilon = (
        "" if outcome["bandwidth"] is None else f", bandwidth {outcome['bandwidth']:.4g} ({outcome['bandwidth_rule']})"
    )
    return (
        f"Embedded {outcome['rows']} rows in {outcome['components']} dimensions by {outcome['method']}: power "
        f"{outcome['power']:g} ({outcome['power_rule']}){epsilon}, {outcome['kernel']}, {outcome['seconds']:.2g} s."
        + (f" Wrote {', '.join(written)}." if written else "")
    )
