"""The file of results: a line of JSON for each measurement, appended as soon as it is finished."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["Results", "ResultsError", "job_key"]

# What tells one job from another; everything else is result.
_KEY = ("kind", "method", "data", "n", "d", "components", "seed", "repeat")


class ResultsError(RuntimeError):
    """Results that must not be mixed."""


def job_key(job: dict[str, Any]) -> str:
    """Name of a job, under which its rows are found again."""
    return "/".join(f"{name}={job[name]}" for name in _KEY if name in job)


class Results:
    """Rows of results, in memory and in a file.

    Parameters
    ----------
    path : Path
        Of ``results.jsonl``.
    fingerprint : dict
        Of this machine and its libraries; a file that has another one is refused.
    source : str
        Digest of heatsketch's source. Rows that depend on it and were measured with another one are dropped, to be
        measured again; peers' rows stay.
    fresh : bool
        Start over, leaving nothing of an earlier file.
    retry : bool
        Drop rows that are not "ok", so that they are tried again.
    """

    def __init__(
        self, path: Path, fingerprint: dict[str, Any], source: str, *, fresh: bool = False, retry: bool = False
    ) -> None:
        self.path, self.source = path, source
        self.rows: list[dict[str, Any]] = [] if fresh else read(path)
        header = next((row for row in self.rows if row["kind"] == "machine"), None)
        if header is None and self.rows:
            raise ResultsError(f"{path} does not say on which machine it was made; start over with --fresh.")
        if header is not None:
            _refuse_others(path, header["fingerprint"], fingerprint)
        else:
            self.rows = [{"kind": "machine", "fingerprint": fingerprint}]
        kept = [row for row in self.rows if not self._stale(row) and not (retry and _went_wrong(row))]
        self.dropped = len(self.rows) - len(kept)
        self.rows = kept
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        temporary.write_text("".join(json.dumps(row) + "\n" for row in self.rows), encoding="utf-8")
        temporary.replace(path)

    def _stale(self, row: dict[str, Any]) -> bool:
        return bool(row.get("ours")) and row.get("source") != self.source

    def of(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        """Rows of a job that are there."""
        key = job_key(job)
        return [row for row in self.rows if row.get("job") == key]

    def append(self, rows: Iterable[dict[str, Any]]) -> None:
        """Add rows, to the file at once."""
        new = [row | {"source": self.source} for row in rows]
        with self.path.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(row) + "\n" for row in new))
            file.flush()
            os.fsync(file.fileno())
        self.rows += new


def read(path: Path) -> list[dict[str, Any]]:
    """Rows of a file; an unfinished last line, left by an interruption, is not one."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    rows = [json.loads(line) for line in lines[:-1] if line.strip()]
    if lines[-1].strip():
        with contextlib.suppress(json.JSONDecodeError):
            rows.append(json.loads(lines[-1]))
    return rows


def _went_wrong(row: dict[str, Any]) -> bool:
    return row.get("status", "ok") != "ok" or "unscored" in row


def _refuse_others(path: Path, there: dict[str, Any], here: dict[str, Any]) -> None:
    different = [
        f"{name}: {there.get(name)!r} there, {here.get(name)!r} here"
        for name in sorted({*there, *here})
        if there.get(name) != here.get(name)
    ]
    if different:
        raise ResultsError(
            f"{path} was made on another machine or with other versions ({'; '.join(different)}). Results of two "
            "machines must not be mixed: start over with --fresh, or choose another directory with -o."
        )
