"""``heatsketch datasets``: example data."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .console import note, out, print_json
from .options import ConsoleOptions, takes

__all__ = ["datasets"]

# Default number of points and description of each data set.
_SETS = {
    "circle": (300, "a circle in the plane, which suits diffusion maps best"),
    "stretched_torus": (500, "a flat torus in R^4, longer in one direction: structure at a small scale"),
    "klein_bottle": (500, "a Klein bottle in R^4"),
    "circle_with_outliers": (200, "a circle and two points far away"),
    "gaussian_clouds": (300, "three clouds in R^10; column cloud"),
    "digits": (1797, "images of handwritten digits, 8 x 8 pixels; column digit"),
}


@takes(console=ConsoleOptions)
def datasets(
    *,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Data set to write; without a name, all are listed.", show_default=False),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="OUTPUT", help="File: csv, tsv, parquet, npy or npz; - for csv."),
    ] = None,
    samples: Annotated[int | None, typer.Option("--samples", "-n", min=1, help="Number of points.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample.")] = 0,
    console: ConsoleOptions,
) -> None:
    """List example data sets, or write one to a file.

    [bold]List:[/] heatsketch datasets

    [bold]A table of real data:[/] heatsketch datasets digits -o digits.csv
    """
    if name is None:
        if console.as_json:
            print_json([{"name": one, "points": n, "about": words} for one, (n, words) in _SETS.items()])
        else:
            for one, (n, words) in _SETS.items():
                out.print(f"{one:22}{n:>4} points: {words}", soft_wrap=True)
        return
    from ..io.errors import check_known  # noqa: PLC0415
    from ..io.writers import check_output, write  # noqa: PLC0415

    check_known([name], list(_SETS), "data set")
    if output is None:
        raise ValueError(f"no output was given; use -o {name}.csv, or -o - for standard output.")
    if output == "-" and console.as_json:
        raise ValueError("-o - and --json both write to standard output; choose one.")
    check_output(output)
    X, features, columns = _generate(name, samples, seed)
    write(output, X, features, columns=columns)
    if console.as_json:
        print_json({"name": name, "rows": len(X), "columns": X.shape[1], "output": output})
    else:
        labels = f", and {', '.join(columns)}" if columns else ""
        note(f"Wrote {output}: {len(X)} rows, {X.shape[1]} columns{labels}.")


def _generate(name: str, samples: int | None, seed: int) -> tuple[Any, list[str], dict[str, Any]]:
    """Points, column names and labels."""
    from .. import datasets as sets  # noqa: PLC0415

    if name == "digits":
        if samples is not None:
            raise ValueError("--samples does not apply to digits, which are always 1797 images.")
        X, labels = sets.digits()
        return X, [f"pixel{j}" for j in range(X.shape[1])], {"digit": labels}
    n = samples or _SETS[name][0]
    if name == "gaussian_clouds":
        X, labels = sets.gaussian_clouds(n, random_state=seed, return_labels=True)
        columns = {"cloud": labels}
    else:
        X, columns = getattr(sets, name)(n, random_state=seed), {}
    return X, [f"x{j}" for j in range(X.shape[1])], columns
