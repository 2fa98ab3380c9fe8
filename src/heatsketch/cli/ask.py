"""``heatsketch estimate``, ``diagnose`` and ``compare``: questions about data."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._utils.text import did_you_mean
from .console import FINDINGS, as_options, note, print_json, say
from .embed import Input, Weight, keep_aside, load, read_input, weights_in
from .options import ConsoleOptions, EstimatorOptions, InputOptions, Method, make_estimator, takes

if TYPE_CHECKING:
    from ..analysis.diagnosis import Diagnosis
    from ..io import Data

__all__ = ["compare", "diagnose", "estimate"]

# Seconds in which a row is examined.
_EXAMINING = 3e-5
# Parameters that change the time of a fit, and not its prediction.
_LEFT_OUT = {"n_exact", "objective", "solver"}


@takes(reads=InputOptions, options=EstimatorOptions, console=ConsoleOptions)
def estimate(
    *,
    source: Annotated[
        str | None, typer.Argument(metavar="[INPUT]", help="File of points; - for standard input.", show_default=False)
    ] = None,
    shape: Annotated[
        str | None, typer.Option(metavar="ROWS,COLUMNS", help="Instead of a file, such as 1000000,50.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="With --shape: float32 or float64.")] = None,
    page: Annotated[bool, typer.Option("--report", help="Include the page that `embed --report` writes.")] = False,
    method: Method = "heatsketch",
    reads: InputOptions,
    options: EstimatorOptions,
    console: ConsoleOptions,
) -> None:
    """Predict the memory and the time of an embedding.

    [bold]For a file, with its page:[/] heatsketch estimate digits.csv --label digit --report

    [bold]For a shape:[/] heatsketch estimate --shape 1000000,50 -k 10 -p 16
    """
    from ..kernel.plan import estimate as predict  # noqa: PLC0415

    if (source is None) == (shape is None) or (dtype is not None and shape is None):
        raise ValueError("give either a file, or --shape ROWS,COLUMNS and possibly --dtype.")
    if source is not None:
        data = read_input(source, reads)
        found = predict(data.X, method=method, page=page, **_predictable(method, options.parameters(data)))
    else:
        found = predict(_size(str(shape)), method=method, page=page, dtype=dtype, **_predictable(method, options.given))
    if console.as_json:
        print_json(vars(found) | {"seconds": found.seconds, "fits": found.fits})
    else:
        say(as_options(found))


def _predictable(method: str, given: dict[str, Any]) -> dict[str, Any]:
    """The parameters that a prediction depends on; the estimator must have all others."""
    from ..estimators import METHODS  # noqa: PLC0415
    from ..kernel.options import EXPERT, SHARED, check_params  # noqa: PLC0415

    predicted = {"n_components", "power", *SHARED} - {"kernel_params"}
    known = ["random_state", *signature(METHODS[method]).parameters]
    if strange := sorted(given.keys() - {*known}):
        raise ValueError(
            f"{strange[0]} does not apply to --method {method}, or to a prediction.{did_you_mean(strange[0], known)}"
        )
    for name in _LEFT_OUT & given.keys():
        note(f"The prediction does not depend on {name}, although a fit may take longer or shorter.")
    kernel = check_params(given.get("kernel_params"), "kernel_params", EXPERT)
    return {name: value for name, value in given.items() if name in predicted} | kernel


def _size(shape: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in shape.split(","))
    except ValueError:
        raise ValueError(f"--shape {shape} was given; give the numbers of rows and columns, as 1000000,50.") from None


@takes(reads=InputOptions, options=EstimatorOptions, console=ConsoleOptions)
def diagnose(
    *,
    source: Annotated[str, typer.Argument(metavar="INPUT|MODEL", help="File of data, or a saved model.")],
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 3 if a finding is harmful.")] = False,
    weight: Weight = None,
    method: Method = "heatsketch",
    reads: InputOptions,
    options: EstimatorOptions,
    console: ConsoleOptions,
) -> None:
    """Report what looks wrong with an embedding; each finding has a measured value and a remedy.

    [bold]For a file:[/] heatsketch diagnose digits.csv --label digit

    [bold]For a model, in a script:[/] heatsketch diagnose digits.heatsketch --strict --json
    """
    from .._utils.progress import shown, task  # noqa: PLC0415

    data: Data | None = None
    if Path(source).suffix == ".heatsketch":
        if given := [*reads.given, *options.given, *([] if weight is None else ["weight"])]:
            raise ValueError(f"--{given[0]} does not apply to a saved model; leave it out.")
        model = load(Path(source))[1]
    else:
        data = read_input(source, keep_aside(source, reads, "weight", weight))
        model = make_estimator(method, options, data)
    examining = "examining the embedding"
    with shown(not console.quiet, later=[] if data is None else [(examining, _EXAMINING * data.X.shape[0])]):
        if data is not None:
            model.fit(data.points, sample_weight=weights_in(data, weight))
        with task(examining):
            found = _for_file(model.diagnose(), is_table=data is None or data.encoder is not None)
    harmful = any(finding.harmful for finding in found)
    if console.as_json:
        print_json({"input": source, "harmful": harmful, "findings": [vars(finding) for finding in found]})
    else:
        say(as_options(found))
    if strict and harmful:
        raise typer.Exit(FINDINGS)


def _for_file(found: Diagnosis, *, is_table: bool) -> Diagnosis:
    """Findings with remedies that apply to a file of data: only tables are standardised."""
    if is_table:
        return found
    remedy = (
        "If their units differ, standardise the columns before they are written to the file, for example with "
        "sklearn.preprocessing.StandardScaler()."
    )
    return type(found)(replace(one, remedy=remedy) if one.name == "units" else one for one in found)


@takes(reads=InputOptions, options=EstimatorOptions, console=ConsoleOptions)
def compare(
    *,
    source: Input,
    picture: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PICTURE", help="Draw the embeddings side by side: png, svg or pdf."),
    ] = None,
    reads: InputOptions,
    options: EstimatorOptions,
    console: ConsoleOptions,
) -> None:
    """Embed data by diffusion maps, a Gaussian process and HeatSketch, and measure the distortion of distances.

    log L is the logarithm of the largest over the smallest ratio of embedded to diffusion distance; 0 is perfect.
    The picture is coloured by the first --label.

    [bold]A table:[/] heatsketch compare digits.csv --label digit -k 3

    [bold]A table and a picture:[/] heatsketch compare digits.csv --label digit -o compare.png
    """
    from .._utils.drawing import check_picture, save_picture  # noqa: PLC0415
    from .._utils.files import check_writable  # noqa: PLC0415
    from .._utils.progress import shown  # noqa: PLC0415
    from ..compare import compare_embeddings  # noqa: PLC0415

    if picture is not None:
        check_picture(check_writable(picture))
    data = read_input(source, reads)
    given = {"random_state": 0} | options.parameters(data)
    with shown(not console.quiet):
        found = compare_embeddings(data.points, **given)
    if picture is not None:
        label = next(iter(reads.label or ()), None)
        save_picture(found.plot(color=None if label is None else data.columns[label]), picture)
    if console.as_json:
        frame = found.to_frame().astype(object)
        rows = [{"method": str(name)} | row.to_dict() for name, row in frame.iterrows()]
        print_json({"input": source, "components": found.n_components, "power": found.power, "methods": rows,
                    "picture": None if picture is None else str(picture)})  # fmt: skip
        return
    say(found)
    if picture is not None:
        note(f"Wrote {picture}.")
