"""The paper's statements and what the tables say about them."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from .evidence import Claim, Verdict
from .further import FURTHER
from .manifolds import MANIFOLDS
from .multiscale import MULTISCALE
from .outliers import OUTLIERS
from .signs import SIGNS
from .theory import THEORY

__all__ = ["CLAIMS", "Claim", "Verdict", "judge_claims"]

CLAIMS: dict[str, tuple[Claim, ...]] = {
    "section5": (*MANIFOLDS, *OUTLIERS, *SIGNS, *MULTISCALE),
    "theory": THEORY,
    "further": FURTHER,
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
    for group, claim in ((group, claim) for group, claims in CLAIMS.items() for claim in claims):
        if not all(name in tables for name in claim.tables):
            continue
        needed = [tables[name] for name in claim.tables]
        verdict = claim.judge(*needed)
        rows.append(
            {
                "name": claim.name,
                "group": group,
                "place": claim.place,
                "statement": claim.statement,
                "tables": " ".join(claim.tables),
                "test": claim.test,
                "trials": min(table["trial"].nunique() for table in needed),
                "measured": verdict.measured,
                "verdict": verdict.word,
                "note": claim.note,
            }
        )
    columns = ["name", "group", "place", "statement", "tables", "test", "trials", "measured", "verdict", "note"]
    return pd.DataFrame(rows, columns=columns)
