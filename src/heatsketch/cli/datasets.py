"""``heatsketch datasets``: example data."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .console import note, out, print_json, table
from .options import VoiceOptions, takes

__all__ = ["datasets"]

# Default number of points (None if it is fixed) and description of each data set.
_SETS: dict[str, tuple[int | None, str]] = {
    "circle": (300, "a circle in the plane, where diffusion maps are at their best"),
    "stretched_torus": (500, "a flat torus in R^4, one circle longer: small-scale structure"),
    "klein_bottle": (500, "a Klein bottle in R^4"),
    "circle_with_outliers": (200, "a circle and two points far away"),
    "gaussian_clouds": (300, "three clouds in R^10; column cloud"),
    "digits": (None, "1797 images of handwritten digits, 8 x 8 pixels; column digit"),
}


@takes(voice=VoiceOptions)
def datasets(
    *,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Data set to write; lists all without it.", show_default=False),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="OUTPUT", help="File: csv, tsv, parquet, npy or npz; - for csv."),
    ] = None,
    samples: Annotated[int | None, typer.Option("--samples", "-n", min=1, help="Number of points.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample.")] = 0,
    voice: VoiceOptions,
) -> None:
    """List example data sets, or write one to a file.

    [bold]List:[/] heatsketch datasets

    [bold]A table of real data:[/] heatsketch datasets digits -o digits.csv
    """
    if name is None:
        if voice.as_json:
            print_json([{"name": one, "points": n or 1797, "about": words} for one, (n, words) in _SETS.items()])
        else:
            out.print(table(("name", "points", ""), [(one, n or 1797, words) for one, (n, words) in _SETS.items()]))
        return
    from ..io.errors import check_known  # noqa: PLC0415
    from ..io.writers import check_output, write  # noqa: PLC0415

    check_known([name], list(_SETS), "data set")
    if output is None:
        raise ValueError(f"no output was given; use -o {name}.csv, or -o - for standard output.")
    if output == "-" and voice.as_json:
        raise ValueError("-o - and --json both write to standard output; choose one.")
    check_output(output)
    X, features, columns = _generate(name, samples, seed)
    write(output, X, features, columns=columns)
    if voice.as_json:
        print_json({"name": name, "rows": len(X), "columns": X.shape[1], "output": output})
    else:
        beside = f", and {', '.join(columns)}" if columns else ""
        note(f"Wrote {output}: {len(X)} rows, {X.shape[1]} columns{beside}.")


def _generate(name: str, samples: int | None, seed: int) -> tuple[Any, list[str], dict[str, Any]]:
    """Points, column names and labels."""
    from .. import datasets as sets  # noqa: PLC0415

    if name == "digits":
        if samples is not None:
            raise ValueError("--samples does not apply to digits, which are always 1797.")
        X, labels = sets.digits()
        return X, [f"pixel{j}" for j in range(X.shape[1])], {"digit": labels}
    n = samples or _SETS[name][0] or 0
    if name == "gaussian_clouds":
        X, labels = sets.gaussian_clouds(n, random_state=seed, return_labels=True)
        columns = {"cloud": labels}
    else:
        X, columns = getattr(sets, name)(n, random_state=seed), {}
    return X, [f"x{j}" for j in range(X.shape[1])], columns
