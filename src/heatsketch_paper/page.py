"""One page that gathers pictures, claims and provenance: Markdown, and the same as HTML."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd
from markdown_it import MarkdownIt

from .figures import Figure
from .harness.evidence import LEVEL
from .harness.store import Provenance
from .harness.study import Tables, cell, grid, provenance_table
from .methods import METHODS

__all__ = ["markdown_page", "render_html"]

_TITLES = {"section5": "Section 5: the experiments", "theory": "The theory, and further study"}
_PURPOSE = """
For readers of Gilbert and O'Neill, *Sketching the Heat Kernel: Using Gaussian Processes to Embed Data*,
arXiv:2403.07929: this page computes the figures of the paper again, and decides its statements one by one.
"""

_INTRODUCTION = """
L is the bi-Lipschitz constant of an embedding: the largest ratio of embedded to original distance over the smallest.
The original distance is the diffusion distance of the method's own kernel unless stated otherwise. Charts show means of
log L over the trials; error bars are standard deviations, as in the paper. All methods of a trial use the same points.
Both normalisations use the same random matrix, and dimension k uses its first k columns.
"""

_CLAIM_TITLES = {
    "section5": "What section 5 says",
    "theory": "What the theory says",
    "further": "Further questions, ours",
}

_READING = f"""
The first table lists what section 5 says about its figures, in our words; the second what the theorems predict, and
remarks about them; the third goes beyond the paper, to other data and sharper statements. The tests read the words of
the paper as follows: "most" is more than half, "alike" within one error bar, "nearly" within a tenth, "may" and "still"
at least one trial in ten, "far apart" not among the closest tenth of all pairs.

Comparisons of means have {LEVEL:.0%} confidence, shared among the comparisons of a row (Bonferroni). A statement
*holds*, *does not hold*, or is *undecided* if the trials are not conclusive. A test can refute a statement of equality
but not prove it: if no difference is found the statement is *consistent* with the trials, and the half-width shows how
large a difference would have been detected. Values after ± are the half-widths of the tests, unless marked s.e.
(standard error).
"""


def markdown_page(
    figures: Sequence[Figure], tables: Tables, origins: Mapping[str, Provenance], claims: pd.DataFrame
) -> str:
    """The page as Markdown.

    Parameters
    ----------
    figures : sequence of Figure
        In the order of the page.
    tables, origins : mapping
        By name of the experiment.
    claims : DataFrame
        From `judge_claims`.
    """
    versions = dict.fromkeys(origin.version for origin in origins.values())
    commands = dict.fromkeys(session["command"] for origin in origins.values() for session in origin.sessions)
    parts = [
        "# The paper, reproduced",
        _PURPOSE.strip(),
        f"Made by {', '.join(f'`{c}`' for c in commands)} with heatsketch {', '.join(versions)}.",
        _summary(claims),
        _INTRODUCTION.strip(),
        _methods(origins),
    ]
    statements: dict[str | None, list[str]] = defaultdict(list)
    for number, claim in enumerate(claims.itertuples(), start=1):
        statements[_home(claim, figures)].append(f"- **{claim.verdict}** ({number}): {claim.statement}")
    for group, title in _TITLES.items():
        chosen = [figure for figure in figures if figure.group == group]
        written = [_figure(figure, tables, origins, statements[figure.name]) for figure in chosen]
        parts += [f"## {title}", *written] if written else []
    parts += ["## Claims", _READING.strip(), _claims_tables(claims), "## Provenance", provenance_table(tables, origins)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _summary(claims: pd.DataFrame) -> str:
    """How many statements of each group hold."""
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
        lines += [f"- [{title}](#claims): of {counts.sum()} statements {found}."] if len(counts) else []
    return "\n".join(lines)


def _methods(origins: Mapping[str, Provenance]) -> str:
    used = {name for origin in origins.values() for name in origin.parameters.get("methods", ())}
    rows = [[name, method.label] for name, method in METHODS.items() if name in used]
    return grid(["method", ""], rows) if rows else ""


def _home(claim: Any, figures: Sequence[Figure]) -> str | None:
    """The figure under which a claim is listed: the one that its place names, or else the first with its tables."""
    tables = set(claim.tables.split())
    named = [f for f in figures if f.place in claim.place and tables & set(f.experiments)]
    having = [
        f for f in figures if tables <= set(f.experiments) and (claim.group == "section5") == (f.group == "section5")
    ]
    return next((f.name for f in (*named, *having)), None)


def _figure(figure: Figure, tables: Tables, origins: Mapping[str, Provenance], statements: Sequence[str]) -> str:
    names = figure.experiments
    settings = [_setting(origins[name].parameters, tables[name]["trial"].nunique()) for name in names]
    files = ", ".join(f"[{name}.csv](tables/{name}.csv)" for name in names)
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
    for group, title in _CLAIM_TITLES.items():
        rows = []
        for number, claim in enumerate(claims.itertuples(), start=1):
            statement = claim.statement + (f" *{claim.note}*" if claim.note else "")
            cells = (number, claim.place, statement, claim.test, claim.trials, claim.measured, f"**{claim.verdict}**")
            rows += [[cell(str(text)) for text in cells]] if claim.group == group else []
        head = ["", "where", "statement", "test", "trials", "measured", "verdict"]
        parts += [f"### {title}", grid(head, rows)] if rows else []
    return "\n\n".join(parts)


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
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(markdown)
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", inline.content.lower().replace(" ", "-"))
    title = next(line.removeprefix("# ") for line in markdown.splitlines() if line.startswith("# "))
    return _SHELL.format(title=html.escape(title), body=parser.renderer.render(tokens, parser.options, {}))
