"""The paper's statements, in our words (``claims.toml``), and what the tables say about them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from .judges import JUDGES

__all__ = ["CLAIMS", "Claim", "judge_claims"]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper; the judge of the same name decides it.

    Attributes
    ----------
    name : str
    group : {"section5", "theory", "further"}
    place : str
        Where the sentence stands.
    statement : str
    test : str
        Statistic and criterion.
    tables : list of str
        Experiments whose tables the judge takes, in this order.
    note : str
        Errata, gaps in the text, and what else a reader should know.
    """

    name: str
    group: str
    place: str
    statement: str
    test: str
    tables: list[str]
    note: str = ""


_DECLARED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
CLAIMS: dict[str, Claim] = {
    name: Claim(name, group, **fields) for group, claims in _DECLARED.items() for name, fields in claims.items()
}


def judge_claims(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Decide every claim whose tables are there.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        By name of the experiment.

    Returns
    -------
    claims : DataFrame
        A row for each claim: name, group, place, statement, tables, test, trials (the fewest of its tables), measured,
        verdict, note.
    """
    rows = []
    for claim in CLAIMS.values():
        if all(name in tables for name in claim.tables):
            needed = [tables[name] for name in claim.tables]
            verdict = JUDGES[claim.name](*needed)
            found = {
                "tables": " ".join(claim.tables),
                "trials": min(table["trial"].nunique() for table in needed),
                "measured": verdict.measured,
                "verdict": verdict.word,
            }
            rows.append(vars(claim) | found)
    columns = ["name", "group", "place", "statement", "tables", "test", "trials", "measured", "verdict", "note"]
    return pd.DataFrame(rows, columns=columns)
