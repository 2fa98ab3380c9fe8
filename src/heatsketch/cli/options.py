"""Options that several commands share, in groups, and the decorator that adds them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from .console import INTERRUPTED, err, notes

if TYPE_CHECKING:
    from ..io import Data, Reading

__all__ = ["InputOptions", "KernelOptions", "MethodOptions", "VoiceOptions", "graph_options", "number_or_word", "takes"]

F = TypeVar("F", bound=Callable[..., None])

# Kernel options that apply to points only.
_OF_POINTS = ("bandwidth", "bandwidth_neighbor", "n_neighbors", "cutoff", "metric", "metric_params")
# Options that estimators take in dictionaries.
_EXPERT = ("bandwidth_neighbor", "cutoff", "diagonal", "max_iter", "precision", "tol")
_OPTIMISER = ("n_rounds", "regularization", "width")
_INPUT, _KERNEL, _METHOD, _VOICE = "Input", "Kernel", "Embedding", "Output"


def takes(**groups: type) -> Callable[[F], F]:
    """Give a command the options of several groups, each passed to it as one object.

    Parameters
    ----------
    **groups : dataclasses
        By the name of the command's parameter for the group. Their fields are annotated for typer.
    """

    def decorate(command: F) -> F:
        own = inspect.signature(command, eval_str=True)
        parameters = [p for p in own.parameters.values() if p.name not in groups]
        for group in groups.values():
            hints = get_type_hints(group, include_extras=True)
            parameters += [
                inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
                for f in fields(group)
            ]

        @wraps(command)
        def call(**given: Any) -> None:
            made = {name: group(**{f.name: given.pop(f.name) for f in fields(group)}) for name, group in groups.items()}
            try:
                command(**given, **made)
            except KeyboardInterrupt:
                err.print("Interrupted.")
                raise typer.Exit(INTERRUPTED) from None

        vars(call)["__signature__"] = own.replace(parameters=parameters)
        call.__annotations__ = {p.name: p.annotation for p in parameters}
        return call  # type: ignore[return-value]

    return decorate


@dataclass(frozen=True)
class InputOptions:
    """How INPUT is read."""

    format: Annotated[
        str | None,
        typer.Option(
            help="Format, if the suffix does not determine it: csv, tsv, parquet, npy, npz, mtx, h5ad, edges, graphml.",
            rich_help_panel=_INPUT,
        ),
    ] = None
    id: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column that names the rows.", rich_help_panel=_INPUT)
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Column to keep aside and colour by; repeatable.", rich_help_panel=_INPUT),
    ] = None
    drop: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Column to leave out; repeatable.", rich_help_panel=_INPUT)
    ] = None
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Column to embed; all others are kept aside; repeatable.", rich_help_panel=_INPUT
        ),
    ] = None
    separator: Annotated[
        str | None,
        typer.Option(
            help="Separator of a text file: comma, tab, space, semicolon or a character.", rich_help_panel=_INPUT
        ),
    ] = None
    decimal: Annotated[
        str | None, typer.Option(help="Decimal point of a text file, such as a comma.", rich_help_panel=_INPUT)
    ] = None
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of a text file; UTF-8 by default.", rich_help_panel=_INPUT)
    ] = None
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether the first line of a text file names its columns; by default it does unless it holds numbers.",
            rich_help_panel=_INPUT,
            show_default=False,
        ),
    ] = None
    key: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Array of an npz file, or entry of obsm in an h5ad file.", rich_help_panel=_INPUT
        ),
    ] = None

    @property
    def reading(self) -> Reading:
        """The options as the readers take them."""
        from ..io import Reading  # noqa: PLC0415

        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "label"}
        return Reading(labels=self.label or (), **given | {"drop": self.drop or (), "only": self.only or ()})

    @property
    def given(self) -> list[str]:
        """Names of the options that were given."""
        return list(_given(self))


def _text(words: str, panel: str, *names: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=words, rich_help_panel=panel, metavar=metavar, show_default=False)


@dataclass(frozen=True)
class KernelOptions:
    """Options of the heat kernel; None is the default of the estimator."""

    bandwidth: Annotated[
        str | None,
        _text("Epsilon in exp(-|x - y|^2 / epsilon), or a rule: auto, median, neighbor, slope, self-tuning.", _KERNEL),
    ] = None
    normalization: Annotated[
        str | None, _text("bistochastic (default), symmetric, stochastic or bistochastic-weighted.", _KERNEL)
    ] = None
    alpha: Annotated[float | None, _text("Density exponent, 0 to 1.", _KERNEL)] = None
    affinity: Annotated[
        str | None, _text("gaussian, or precomputed: INPUT is a matrix of affinities. Graphs are recognised.", _KERNEL)
    ] = None
    metric: Annotated[
        str | None,
        _text("A metric of scikit-learn (default: euclidean), or precomputed: INPUT holds distances.", _KERNEL),
    ] = None
    metric_params: Annotated[str | None, _text('Parameters of the metric, as JSON: {"p": 3}.', _KERNEL)] = None
    bandwidth_neighbor: Annotated[
        int | None, _text("Which neighbour the rules neighbor and self-tuning use.", _KERNEL)
    ] = None
    n_neighbors: Annotated[
        str | None, _text("Neighbours kept of each point: auto (default), all, or a number.", _KERNEL)
    ] = None
    cutoff: Annotated[float | None, _text("Omit pairs whose affinity is below this.", _KERNEL)] = None
    diagonal: Annotated[
        str | None, _text("Affinity of points with themselves: auto (default), keep or zero.", _KERNEL)
    ] = None
    tol: Annotated[float | None, _text("Largest deviation of row sums from 1.", _KERNEL)] = None
    max_iter: Annotated[int | None, _text("Maximum number of products of the bistochastic scaling.", _KERNEL)] = None
    device: Annotated[str | None, _text("Where to compute: auto (default), cpu, cuda, or cuda:1.", _KERNEL)] = None
    precision: Annotated[
        str | None, _text("How a GPU forms exponents: auto (default), halves, mixed, split or float32.", _KERNEL)
    ] = None

    @property
    def estimator_parameters(self) -> dict[str, Any]:
        """Those that were given, as the estimators take them."""
        return _folded(self.parameters, kernel_params=_EXPERT)

    @property
    def parameters(self) -> dict[str, Any]:
        """Those that were given, as `heat_kernel` and `estimate` take them."""
        given = _given(self)
        for name in ("bandwidth", "n_neighbors"):
            if name in given:
                given[name] = number_or_word(given[name])
        if given.get("n_neighbors") == "all":
            given["n_neighbors"] = None
        if "metric_params" in given:
            given["metric_params"] = _json(given["metric_params"], "--metric-params")
        return given


@dataclass(frozen=True)
class MethodOptions:
    """The estimator and its options; None is the default of the estimator."""

    method: Annotated[
        str, typer.Option(help="heatsketch, gaussian-process or diffusion-maps.", rich_help_panel=_METHOD)
    ] = "heatsketch"
    n_components: Annotated[
        str | None, _text("Dimensions of the embedding (default: 2), or auto.", _METHOD, "--components", "-k")
    ] = None
    power: Annotated[
        str,
        typer.Option("--power", "-p", help="Diffusion time, or a rule: auto, paths, entropy.", rich_help_panel=_METHOD),
    ] = "auto"
    random_state: Annotated[
        int, typer.Option("--seed", min=0, help="Seed; the same seed gives the same result.", rich_help_panel=_METHOD)
    ] = 0
    sketch: Annotated[
        str | None, _text("gaussian-process: gaussian, rademacher, rademacher-hash or columns.", _METHOD)
    ] = None
    n_exact: Annotated[
        str | None, _text("gaussian-process: directions that are computed rather than sketched, or auto.", _METHOD)
    ] = None
    distance_error: Annotated[
        float | None, _text("gaussian-process: error of distances for --components auto.", _METHOD)
    ] = None
    solver: Annotated[str | None, _text("diffusion-maps: auto, dense or randomized.", _METHOD)] = None
    objective: Annotated[str | None, _text("heatsketch: bilipschitz (worst case) or log-stress.", _METHOD)] = None
    init: Annotated[list[str] | None, _text("heatsketch: start of the optimisation; repeatable.", _METHOD)] = None
    width: Annotated[int | None, _text("heatsketch: columns of the wide sketch.", _METHOD)] = None
    n_rounds: Annotated[int | None, _text("heatsketch: rounds of the optimisation.", _METHOD)] = None
    regularization: Annotated[float | None, _text("heatsketch: weight of the regulariser.", _METHOD)] = None

    def estimator(self, kernel: KernelOptions, data: Data | None = None, *, verbose: bool = False) -> Any:
        """The unfitted estimator for some data."""
        from ..estimators import METHODS  # noqa: PLC0415

        if self.method not in METHODS:
            raise ValueError(f"method {self.method!r} is not known; use one of {', '.join(METHODS)}.")
        kind = METHODS[self.method]
        known = inspect.signature(kind).parameters
        given = _folded(_given(self) | kernel.parameters, kernel_params=_EXPERT, solver_params=_OPTIMISER)
        given["verbose"] = verbose
        del given["method"]
        for name in ("n_components", "power", "n_exact"):
            if name in given:
                given[name] = number_or_word(given[name])
        if "random_state" not in known:
            given.pop("random_state")
        strange = next((name for name in given if name not in known), None)
        if strange is not None:
            option = f"--{(next(iter(given[strange])) if strange == 'solver_params' else strange).replace('_', '-')}"
            raise ValueError(f"{option} does not apply to --method {self.method}; see heatsketch embed --help.")
        if data is not None and data.is_graph:
            given |= graph_options(given)
        return kind(**given)


def graph_options(given: dict[str, Any]) -> dict[str, Any]:
    """Options for a graph; those that apply to points only raise ValueError."""
    idle = [name for name in _OF_POINTS if name in given | given.get("kernel_params", {})]
    if idle or given.get("affinity", "precomputed") != "precomputed":
        option = (idle or ["affinity"])[0].replace("_", "-")
        raise ValueError(f"--{option} does not apply to a graph, whose weights are its affinities; leave it out.")
    return {"affinity": "precomputed"}


@dataclass(frozen=True)
class VoiceOptions:
    """Options for the output of a command."""

    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Show no progress, notes or warnings.", rich_help_panel=_VOICE),
    ] = False
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the outcome as JSON on standard output.", rich_help_panel=_VOICE)
    ] = False

    def __post_init__(self) -> None:
        notes.quiet = self.quiet


def _given(options: Any) -> dict[str, Any]:
    """The options that are not at their default, None."""
    values = {f.name: getattr(options, f.name) for f in fields(options)}
    return {name: value for name, value in values.items() if value is not None and value != []}


def _folded(given: dict[str, Any], **dictionaries: tuple[str, ...]) -> dict[str, Any]:
    """Options with those of some names in dictionaries, where any of them was given."""
    folded = {name: value for name, value in given.items() if not any(name in names for names in dictionaries.values())}
    for key, names in dictionaries.items():
        if inside := {name: given[name] for name in names if name in given}:
            folded[key] = inside
    return folded


def number_or_word(text: str) -> int | float | str:
    """An integer, a float, or the text itself."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _json(text: str, option: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{option} {text} is not JSON: {error}.") from error
