"""Options that several commands share, in groups, and the decorator that adds them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from .._utils.text import did_you_mean
from .console import notes

if TYPE_CHECKING:
    from ..io import Data, Reading

__all__ = ["ConsoleOptions", "EstimatorOptions", "InputOptions", "Method", "make_estimator", "takes"]

F = TypeVar("F", bound=Callable[..., None])


def _one_of(*known: str) -> Callable[[str | None], str | None]:
    """A check that an option has one of the known values, if it is given."""

    def check(value: str | None) -> str | None:
        if value is None or value in known:
            return value
        raise typer.BadParameter(f"{value!r} was given; use {' or '.join(known)}.")

    return check


_METHODS = ("heatsketch", "gaussian-process", "diffusion-maps")
Method = Annotated[
    str,
    typer.Option(
        help="The estimator.",
        rich_help_panel="Embedding",
        metavar=f"[{'|'.join(_METHODS)}]",
        callback=_one_of(*_METHODS),
    ),
]
# Parameters that apply to points only.
_OF_POINTS = ("bandwidth", "n_neighbors", "metric")


def takes(**groups: type) -> Callable[[F], F]:
    """Give a command the options of several groups, each passed to it as one object.

    Groups are dataclasses, by the name of the command's parameter; their fields are annotated for typer.
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
            command(**given, **made)

        vars(call)["__signature__"] = own.replace(parameters=parameters)
        call.__annotations__ = {p.name: p.annotation for p in parameters}
        return call  # type: ignore[return-value]

    return decorate


def _input(words: str, *names: str, metavar: str | None = None, known: Sequence[str] = ()) -> Any:
    more: dict[str, Any] = {"metavar": f"[{'|'.join(known)}]", "callback": _one_of(*known)} if known else {}
    return typer.Option(*names, help=words, rich_help_panel="Input", show_default=False, **{"metavar": metavar} | more)


def _embedding(words: str, *names: str, metavar: str | None = None, least: int | None = None) -> Any:
    return typer.Option(*names, help=words, metavar=metavar, min=least, rich_help_panel="Embedding", show_default=False)


@dataclass(frozen=True)
class InputOptions:
    """How INPUT is read; the fields are those of `Reading`."""

    format: Annotated[
        str | None,
        _input("Format, if the suffix does not determine it: csv, tsv, parquet, npy, npz, mtx, h5ad, edges, graphml."),
    ] = None
    id: Annotated[str | None, _input("Column that names the rows.", metavar="NAME")] = None
    label: Annotated[list[str] | None, _input("Column to keep aside and colour by; repeatable.", metavar="NAME")] = None
    drop: Annotated[list[str] | None, _input("Column to leave out; repeatable.", metavar="NAME")] = None
    only: Annotated[
        list[str] | None, _input("Column to embed; all others are kept aside; repeatable.", metavar="NAME")
    ] = None
    separator: Annotated[
        str | None, _input("Separator of a text file: comma, tab, space, semicolon or a character.")
    ] = None
    decimal: Annotated[str | None, _input("Decimal separator of a text file; a point by default.")] = None
    encoding: Annotated[str | None, _input("Encoding of a text file; UTF-8 by default.")] = None
    header: Annotated[
        bool | None,
        _input(
            "Whether the first line of a text file holds the column names; by default, unless it holds numbers.",
            "--header/--no-header",
        ),
    ] = None
    key: Annotated[str | None, _input("Array of an npz file, or entry of obsm in an h5ad file.", metavar="NAME")] = None
    standardize: Annotated[
        bool | None,
        _input(
            "Whether to scale columns of a table to mean 0 and variance 1; by default, if their units differ.",
            "--standardize/--no-standardize",
        ),
    ] = None
    categorical: Annotated[
        list[str] | None,
        _input(
            "Column to embed as a category; 'all' for every text column with few values; repeatable.", metavar="NAME"
        ),
    ] = None
    dates: Annotated[
        str | None, _input("Embed dates as numbers of days; by default they are kept aside.", known=["number"])
    ] = None
    impute: Annotated[
        str | None,
        _input(
            "Replace missing values by the median of their column, or the most frequent value of a category.",
            known=["median"],
        ),
    ] = None
    drop_missing: Annotated[bool | None, _input("Drop rows with missing values.", "--drop-missing")] = None

    @property
    def given(self) -> dict[str, Any]:
        """The options that were given."""
        return _given(self)

    @property
    def reading(self) -> Reading:
        """The options as the readers take them."""
        from ..io import Reading  # noqa: PLC0415

        return Reading(**self.given)


@dataclass(frozen=True)
class EstimatorOptions:
    """Parameters of the estimators."""

    n_components: Annotated[
        str | None,
        _embedding(
            "Dimensions of the embedding (default: 2; 10 for clusters and models); auto for gaussian-process.",
            "--n-components",
            "-k",
        ),
    ] = None
    power: Annotated[
        str | None, _embedding("Diffusion time, or multiscale for all times at once (default).", "--power", "-p")
    ] = None
    random_state: Annotated[
        int | None, _embedding("Seed (default: 0); the same seed gives the same result.", "--seed", least=0)
    ] = None
    bandwidth: Annotated[
        str | None,
        _embedding(
            "Epsilon in exp(-|x - y|^2 / epsilon), or a rule: auto (default), self-tuning, neighbor, median, slope."
        ),
    ] = None
    n_neighbors: Annotated[
        str | None, _embedding("Neighbours kept of each point: auto (default), all, or a number.")
    ] = None
    normalization: Annotated[
        str | None,
        _embedding("Scaling of the kernel: bistochastic (default), symmetric, stochastic or bistochastic-weighted."),
    ] = None
    affinity: Annotated[
        str | None, _embedding("gaussian, or precomputed: INPUT is a matrix of affinities. Graphs are recognised.")
    ] = None
    metric: Annotated[
        str | None,
        _embedding("A metric of scikit-learn (default: euclidean), or precomputed: INPUT holds distances."),
    ] = None
    device: Annotated[str | None, _embedding("Where to compute: auto (default), cpu, cuda, or cuda:1.")] = None
    further: Annotated[
        list[str] | None,
        _embedding(
            "Any other parameter of the estimator, such as neighbor_weight=0.5 (heatsketch) or n_exact=8 "
            "(gaussian-process); repeatable.",
            "--set",
            metavar="NAME=VALUE",
        ),
    ] = None

    @property
    def given(self) -> dict[str, Any]:
        """The parameters that were given."""
        given = _given(self)
        for assignment in given.pop("further", ()):
            name, equals, value = assignment.partition("=")
            if not equals:
                raise ValueError(
                    f"--set {assignment} was given; use --set NAME=VALUE, such as --set neighbor_weight=0.5."
                )
            given[name] = value
        given = {name: _value(text) for name, text in given.items()}
        return given | ({"n_neighbors": None} if given.get("n_neighbors") == "all" else {})

    def parameters(self, data: Data) -> dict[str, Any]:
        """The parameters that were given, with those that the data need."""
        from ..io.cells import METRIC  # noqa: PLC0415

        given = self.given
        if not data.is_graph:
            return {name: value for name, value in self.embedded(data).items() if name in METRIC} | given
        idle = [name for name in _OF_POINTS if name in given]
        if idle or given.get("affinity", "precomputed") != "precomputed":
            option = (idle or ["affinity"])[0].replace("_", "-")
            raise ValueError(f"--{option} does not apply to a graph, whose weights are its affinities; leave it out.")
        return given | {"affinity": "precomputed"}

    def embedded(self, data: Data) -> dict[str, Any]:
        """What is embedded of an h5ad file, without the metric of its neighbours if another one was given."""
        from ..io.cells import METRIC  # noqa: PLC0415

        replaced = METRIC if "metric" in self.given else ()
        return {name: value for name, value in data.embedded.items() if name not in replaced}


def make_estimator(method: str, options: EstimatorOptions, data: Data) -> Any:
    """The unfitted estimator for points or a graph."""
    from ..estimators import METHODS  # noqa: PLC0415

    kind = METHODS[method]
    known = inspect.signature(kind).parameters
    given = {"random_state": 0} | options.parameters(data)
    if "use_labels" in given:
        raise ValueError("--set use_labels was given; name the column of labels with `embed --classes` instead.")
    if "random_state" not in known:  # diffusion maps draw nothing
        del given["random_state"]
    if strange := sorted(given.keys() - known.keys()):
        raise ValueError(
            f"{strange[0]} does not apply to --method {method}; its parameters are {', '.join(known)}."
            + did_you_mean(strange[0], known)
        )
    return kind(**given)


@dataclass(frozen=True)
class ConsoleOptions:
    """Options for the output of a command."""

    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show no progress, notes or warnings.", rich_help_panel="Output")
    ] = False
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON on standard output.", rich_help_panel="Output")
    ] = False

    def __post_init__(self) -> None:
        notes.quiet = self.quiet


def _given(options: Any) -> dict[str, Any]:
    """The options that are not at their default, None."""
    return {name: value for name, value in asdict(options).items() if value not in (None, [])}


def _value(text: Any) -> Any:
    """A number or other JSON value, or the text itself."""
    for parse in (int, float, json.loads):
        try:
            return parse(text)
        except ValueError:
            continue
    return text
