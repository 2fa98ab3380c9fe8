"""One page that gathers pictures, claims and provenance: Markdown, and the same as HTML."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pandas as pd

from .figures import Figure
from .harness.evidence import LEVEL
from .harness.store import Provenance
from .methods import METHODS

__all__ = ["Results", "markdown_page", "render_html", "summary"]

_TITLES = {"section5": "Section 5: the experiments", "theory": "The theory, and further study"}
_PAPER = "Gilbert and O'Neill, *Sketching the Heat Kernel: Using Gaussian Processes to Embed Data*, arXiv:2403.07929"

_INTRODUCTION = """
L is the bi-Lipschitz constant of an embedding, the largest dilation of a distance over the smallest, against the
diffusion distance of the method's own kernel unless said otherwise. Points of the charts are means of log L over the
trials, error bars standard deviations, as in the paper. All methods of a trial see the same points, and the same random
matrix for both normalisations; dimension k uses its first k columns.
"""

_CLAIM_TITLES = {
    "section5": "What section 5 says",
    "theory": "What the theory says",
    "further": "Further questions, ours",
}

_READING = f"""
The first table holds the sentences of section 5 that say what its figures show, in our words; the second what the
theorems predict, and remarks about them; the third goes beyond the paper, to other data and sharper statements.
Tests take words as follows: "most" is more than half, "alike" within one error bar, "nearly" within a tenth, "may"
and "still" at least one trial in ten, "far apart" not among the tenth of all pairs that are closest. Comparisons of
means have {LEVEL:.0%} confidence, shared among the comparisons of a row (Bonferroni): a statement *holds*, *does not
hold*, or is *undecided* where the trials say neither. A statement of equality can be refuted, never proved: where no
difference is found it is *consistent* with the trials, and the figure says how small a difference would have been seen.
After ± stands the half-width that the test uses, unless marked s.e. (standard error).
"""


@dataclass(frozen=True)
class Results:
    """What the page rests on, by name of the experiment: tables and their origins."""

    tables: Mapping[str, pd.DataFrame]
    provenance: Mapping[str, Provenance]

    def trials(self, name: str) -> int:
        """Number of trials that are there."""
        return int(self.tables[name]["trial"].nunique())


def markdown_page(figures: Sequence[Figure], results: Results, claims: pd.DataFrame) -> str:
    """The page as Markdown.

    Parameters
    ----------
    figures : sequence of Figure
        In the order of the page.
    results : Results
    claims : DataFrame
        From `judge_claims`.
    """
    origins = results.provenance.values()
    versions = dict.fromkeys(origin.version for origin in origins)
    commands = dict.fromkeys(session["command"] for origin in origins for session in origin.sessions)
    parts = [
        "# The paper, reproduced",
        f"{_PAPER}.\n\nMade by {', '.join(f'`{c}`' for c in commands)} with heatsketch {', '.join(versions)}.",
        _summary(claims),
        _INTRODUCTION.strip(),
        _methods(results),
    ]
    statements: dict[str | None, list[str]] = defaultdict(list)
    for number, claim in enumerate(claims.itertuples(), start=1):
        statements[_home(claim, figures)].append(f"- **{claim.verdict}** ({number}): {claim.statement}")
    for group, title in _TITLES.items():
        chosen = [figure for figure in figures if figure.group == group]
        if chosen:
            parts += [f"## {title}", *(_figure(figure, results, statements[figure.name]) for figure in chosen)]
    parts += ["## Claims", _READING.strip(), _claims_tables(claims), "## Provenance", _provenance(results, figures)]
    return "\n\n".join(part for part in parts if part) + "\n"


def summary(claims: pd.DataFrame) -> list[str]:
    """How many statements of each group hold, in words."""
    words = {
        "holds": ("holds", "hold"),
        "consistent": ("is consistent", "are consistent"),
        "does not hold": ("does not hold", "do not hold"),
        "undecided": ("is undecided", "are undecided"),
    }
    lines = []
    for group, title in _CLAIM_TITLES.items():
        counts = claims.loc[claims["group"] == group, "verdict"].value_counts()
        found = ", ".join(f"{counts[v]} {word[int(counts[v] > 1)]}" for v, word in words.items() if v in counts)
        lines += [f"{title}: of {counts.sum()} statements {found}."] if len(counts) else []
    return lines


def _summary(claims: pd.DataFrame) -> str:
    return "\n".join(f"- [{line.partition(':')[0]}](#claims):{line.partition(':')[2]}" for line in summary(claims))


def _methods(results: Results) -> str:
    used = {name for origin in results.provenance.values() for name in origin.parameters.get("methods", ())}
    lines = [f"| {name} | {method.label} |" for name, method in METHODS.items() if name in used]
    return "\n".join(["| method | |", "|---|---|", *lines]) if lines else ""


def _home(claim: Any, figures: Sequence[Figure]) -> str | None:
    """The figure under which a claim is listed: the one that its place names, or else the first with its tables."""
    tables = set(claim.tables.split())
    named = [f for f in figures if f.place in claim.place and tables & set(f.experiments)]
    having = [
        f for f in figures if tables <= set(f.experiments) and (claim.group == "section5") == (f.group == "section5")
    ]
    return next((f.name for f in (*named, *having)), None)


def _figure(figure: Figure, results: Results, statements: Sequence[str]) -> str:
    settings = [_setting(results.provenance[name].parameters, results.trials(name)) for name in figure.experiments]
    files = ", ".join(f"[{name}.csv](tables/{name}.csv)" for name in figure.experiments)
    parts = [
        f"### {figure.title}",
        f"*{figure.place}.* {figure.caption}",
        f"![{figure.title}](pictures/{figure.name}.png)",
        "\n".join(statements),
        f"{'; '.join(settings)}. Tables: {files}.",
    ]
    return "\n\n".join(part for part in parts if part)


def _setting(parameters: Mapping[str, Any], trials: int) -> str:
    """The parameters of an experiment as the paper writes them."""
    words = [f"{trials} {'trial' if trials == 1 else 'trials'}", f"n = {parameters['n_samples']}"]
    symbols = {"power": "p", "bandwidth": "ε", "k": "k", "powers": "p", "n_components": "k", "distance": "distance"}
    words += [f"{symbol} = {_range(parameters[name])}" for name, symbol in symbols.items() if name in parameters]
    return f"`{parameters['name']}`: " + ", ".join(words)


def _range(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    if len(value) > 3:
        return f"{value[0]}, {value[1]}, …, {value[-1]}"
    return ", ".join(map(str, value))


def _claims_tables(claims: pd.DataFrame) -> str:
    parts = []
    numbered = claims.assign(number=range(1, len(claims) + 1))
    for group, title in _CLAIM_TITLES.items():
        rows = [_claim_row(claim) for claim in numbered[numbered["group"] == group].itertuples()]
        if rows:
            head = ["| | where | statement | test | trials | measured | verdict |", "|---|---|---|---|---|---|---|"]
            parts += [f"### {title}", "\n".join(head + rows)]
    return "\n\n".join(parts)


def _claim_row(claim: Any) -> str:
    statement = claim.statement + (f" *{claim.note}*" if claim.note else "")
    cells = (claim.number, claim.place, statement, claim.test, claim.trials, claim.measured, f"**{claim.verdict}**")
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def _provenance(results: Results, figures: Sequence[Figure]) -> str:
    lines = ["| table | trials | seed | processes | seconds |", "|---|---|---|---|---|"]
    for name, origin in results.provenance.items():
        jobs = ", ".join(dict.fromkeys(str(session["jobs"]) for session in origin.sessions))
        cells = (f"[{name}](tables/{name}.json)", results.trials(name), origin.parameters["seed"], jobs)
        lines.append(f"| {' | '.join(map(str, cells))} | {origin.seconds:.1f} |")
    for group, title in _TITLES.items():
        names = dict.fromkeys(n for f in figures if f.group == group for n in f.experiments)
        if names:
            total = sum(results.provenance[n].seconds for n in names)
            lines.append(f"| **{title}** | | | | **{total:.0f}** |")
    sessions = [session for origin in results.provenance.values() for session in origin.sessions]
    machines = {tuple(session["machine"].items()): session["started"][:10] for session in sessions}
    found = [", ".join(f"{key} {value}" for key, value in machine) + f" ({date})" for machine, date in machines.items()]
    return "\n".join(lines) + "\n\nMachine: " + "; ".join(found) + "."


_SHELL = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }}
p, h1, h2, h3 {{ max-width: 50rem; }}
p:has(> img) {{ max-width: none; }}
img {{ max-width: 100%; height: auto; background: white; padding: .5rem; box-sizing: border-box; }}
table {{ border-collapse: collapse; font-size: .85rem; display: block; overflow-x: auto; }}
th, td {{ border: 1px solid #8886; padding: .3rem .5rem; text-align: left; vertical-align: top; }}
code {{ font-size: .9em; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def render_html(markdown: str) -> str:
    """A self-contained HTML page from the Markdown; pictures are linked."""
    from markdown_it import MarkdownIt  # noqa: PLC0415

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(markdown)
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", inline.content.lower().replace(" ", "-"))
    title = next(line.removeprefix("# ") for line in markdown.splitlines() if line.startswith("# "))
    return _SHELL.format(title=html.escape(title), body=parser.renderer.render(tokens, parser.options, {}))
