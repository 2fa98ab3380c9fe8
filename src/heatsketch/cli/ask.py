"""``heatsketch estimate``, ``diagnose`` and ``compare``: questions about data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .console import FINDINGS, note, print_json, say
from .embed import Input, _read
from .options import InputOptions, KernelOptions, MethodOptions, VoiceOptions, graph_options, number_or_word, takes

__all__ = ["compare", "diagnose", "estimate"]


@takes(reads=InputOptions, kernel=KernelOptions, voice=VoiceOptions)
def estimate(
    *,
    source: Annotated[
        str | None, typer.Argument(metavar="[INPUT]", help="File of points; - for standard input.", show_default=False)
    ] = None,
    shape: Annotated[
        str | None, typer.Option(metavar="ROWS,COLUMNS", help="Instead of a file, such as 1000000,50.")
    ] = None,
    n_components: Annotated[int, typer.Option("--components", "-k", min=1, help="Dimensions of the embedding.")] = 2,
    power: Annotated[float, typer.Option("--power", "-p", help="Diffusion time.")] = 8.0,
    dtype: Annotated[str | None, typer.Option(help="With --shape: float32 or float64.")] = None,
    reads: InputOptions,
    kernel: KernelOptions,
    voice: VoiceOptions,
) -> None:
    """Predict the memory and the time of an embedding.

    [bold]For a file:[/] heatsketch estimate digits.csv --label digit

    [bold]For a shape:[/] heatsketch estimate --shape 1000000,50 -k 10 -p 16
    """
    from ..kernel.plan import estimate as predict  # noqa: PLC0415

    if (source is None) == (shape is None):
        raise ValueError("give either a file or --shape ROWS,COLUMNS.")
    if dtype is not None and shape is None:
        raise ValueError("--dtype applies to --shape only; a file has its own.")
    parameters = kernel.parameters
    if strange := sorted(parameters.keys() - _RELEVANT):
        raise ValueError(f"--{strange[0].replace('_', '-')} does not change the estimate; leave it out.")
    if shape is not None:
        what: Any = _shape(shape)
    else:
        assert source is not None
        data = _read(source, reads)
        what = data.X
        parameters |= graph_options(parameters) if data.is_graph else {}
    found = predict(what, n_components=n_components, power=power, dtype=dtype, **parameters)
    if voice.as_json:
        print_json(vars(found))
    else:
        say(found)


_RELEVANT = {"bandwidth", "normalization", "affinity", "metric", "metric_params", "n_neighbors", "cutoff", "device"}


def _shape(text: str) -> tuple[int, int]:
    try:
        rows, columns = (int(part) for part in text.replace("x", ",").split(","))
    except ValueError as error:
        raise ValueError(f"--shape {text} is not a shape; give ROWS,COLUMNS, such as 1000000,50.") from error
    return rows, columns


@takes(reads=InputOptions, method=MethodOptions, kernel=KernelOptions, voice=VoiceOptions)
def diagnose(
    *,
    source: Annotated[str, typer.Argument(metavar="INPUT|MODEL", help="File of data, or a saved model.")],
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 3 if a finding is harmful.")] = False,
    reads: InputOptions,
    method: MethodOptions,
    kernel: KernelOptions,
    voice: VoiceOptions,
) -> None:
    """Report what looks wrong with an embedding, with the figure behind each finding and a remedy.

    [bold]For a file:[/] heatsketch diagnose digits.csv --label digit

    [bold]For a model, in a script:[/] heatsketch diagnose digits.heatsketch --strict --json
    """
    model: Any
    if Path(source).suffix == ".heatsketch":
        from ..io.models import load_model  # noqa: PLC0415

        given = [*reads.given, *kernel.parameters, *(["method"] if method != MethodOptions() else [])]
        if given:
            raise ValueError(f"--{given[0].replace('_', '-')} does not apply to a saved model; leave it out.")
        model = load_model(source).set_params(verbose=not voice.quiet)
    else:
        data = _read(source, reads)
        model = method.estimator(kernel, data, verbose=not voice.quiet).fit(data.points)
    found = model.diagnose()
    harmful = any(finding.harmful for finding in found)
    if voice.as_json:
        print_json({"input": source, "harmful": harmful, "findings": [vars(finding) for finding in found]})
    else:
        say(found)
    if strict and harmful:
        raise typer.Exit(FINDINGS)


@takes(reads=InputOptions, kernel=KernelOptions, voice=VoiceOptions)
def compare(
    *,
    source: Input,
    picture: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PICTURE", help="Draw the embeddings side by side: png, svg or pdf."),
    ] = None,
    n_components: Annotated[int, typer.Option("--components", "-k", min=1, help="Dimensions of the embeddings.")] = 2,
    power: Annotated[
        str, typer.Option("--power", "-p", help="Diffusion time, or a rule: auto, paths, entropy.")
    ] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random sketches.")] = 0,
    reads: InputOptions,
    kernel: KernelOptions,
    voice: VoiceOptions,
) -> None:
    """Embed data by diffusion maps, a Gaussian process and HeatSketch, and measure the distortion of distances.

    log L is the logarithm of the largest over the smallest ratio of embedded to diffusion distance; 0 is perfect.
    The picture is coloured by the first --label.

    [bold]A table:[/] heatsketch compare digits.csv --label digit -k 3

    [bold]A table and a picture:[/] heatsketch compare digits.csv --label digit -o compare.png
    """
    from .._utils.drawing import check_picture, save_picture  # noqa: PLC0415
    from .._utils.files import check_writable  # noqa: PLC0415
    from ..compare import compare_embeddings  # noqa: PLC0415

    if picture is not None:
        check_picture(check_writable(picture))
    data = _read(source, reads)
    options = kernel.estimator_parameters
    options |= graph_options(options) if data.is_graph else {}
    found = compare_embeddings(
        data.points,
        n_components,
        power=number_or_word(power),
        random_state=seed,
        verbose=not voice.quiet,
        **options,
    )
    if picture is not None:
        labels = list(reads.label or ())
        save_picture(found.plot(color=data.columns[labels[0]] if labels else None), picture)
    if voice.as_json:
        frame = found.to_frame().astype(object)
        rows = [{"method": str(name)} | row.to_dict() for name, row in frame.iterrows()]
        print_json({"input": source, "components": found.n_components, "power": found.power, "methods": rows,
                    "picture": None if picture is None else str(picture)})  # fmt: skip
        return
    say(found)
    if picture is not None:
        note(f"Wrote {picture}.")
