"""What the pages of the studies have in common: tables, verdicts, and where the numbers come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from heatsketch_paper.store import Provenance

__all__ = ["Tables", "Verdict", "grid", "made_by", "promises", "provenance"]

Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class Verdict:
    """A promise, what was measured, and whether it is kept."""

    promise: str
    measured: str
    kept: bool


def grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def made_by(origins: Mapping[str, Provenance], package: str) -> str:
    """The commands that made the tables and the page."""
    commands = dict.fromkeys(s["command"] for origin in origins.values() for s in origin.sessions)
    made = ", ".join(f"`{c}`" for c in commands)
    return f"Made by {made}; the page itself by `python -m benchmarks.{package} --page`."


def promises(verdicts: Iterable[Verdict]) -> str:
    """The promises and what became of them."""
    rows = [[v.promise, v.measured, "**kept**" if v.kept else "**not kept**"] for v in verdicts]
    return grid(["promise", "measured", ""], rows)


def provenance(tables: Tables, origins: Mapping[str, Provenance]) -> str:
    """Trials, seeds and machines of all tables."""
    rows = [
        [
            f"[{name}](tables/{name}.csv)",
            str(tables[name]["trial"].nunique()),
            str(origin.parameters["seed"]),
            f"{origin.seconds:.0f}",
        ]
        for name, origin in origins.items()
    ]
    sessions = [session for origin in origins.values() for session in origin.sessions]
    machines = dict.fromkeys(", ".join(f"{k} {v}" for k, v in s["machine"].items()) for s in sessions)
    return grid(["table", "trials", "seed", "seconds"], rows) + "\n\nMachine: " + "; ".join(machines) + "."
