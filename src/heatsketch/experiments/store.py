"""Tables of results on disk, each with its provenance, written whole or not at all."""

from __future__ import annotations

import json
import os
import platform
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._version import __version__
from .experiment import Experiment, Row

__all__ = ["Provenance", "Store", "machine", "write_whole"]

_LIBRARIES = ("numpy", "scipy", "scikit-learn")
# Six significant digits: more than a picture or a mean of hundreds of trials can show, and small files.
_FLOAT_FORMAT = "%.6g"


def machine() -> dict[str, Any]:
    """What the results may depend on: processor, system and libraries."""
    found: dict[str, Any] = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            found[library] = "unknown"
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def write_whole(path: Path, text: str) -> None:
    """Write a text file so that nobody ever sees a part of it: to a temporary name, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        Path(name).chmod(0o644)  # mkstemp's files are private
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@dataclass(frozen=True)
class Provenance:
    """Where a table comes from.

    Attributes
    ----------
    parameters : dict
        All that decides the results, the seed included.
    version : str
        Of heatsketch.
    sessions : list of dict
        For each run that added trials: when, where, how many trials, how many processes, how many seconds.
    """

    parameters: dict[str, Any]
    version: str
    sessions: list[dict[str, Any]]

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of all sessions."""
        return float(sum(session["seconds"] for session in self.sessions))


class Store:
    """A directory of tables.

    ``tables/NAME.csv`` holds the rows of an experiment, ``tables/NAME.json`` its provenance.

    Parameters
    ----------
    directory : path
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)

    def path(self, name: str, suffix: str = ".csv") -> Path:
        """The file of a table, or of its provenance."""
        return self.directory / "tables" / f"{name}{suffix}"

    def open(self, experiment: Experiment, *, fresh: bool = False) -> set[int]:
        """Make ready for an experiment; the trials that are there already.

        Results of other parameters or another version are never mixed with new ones: they raise, unless `fresh`
        throws them away.
        """
        path, about = self.path(experiment.name), self.path(experiment.name, ".json")
        if fresh:
            path.unlink(missing_ok=True)
            about.unlink(missing_ok=True)
        if not about.exists():
            path.unlink(missing_ok=True)  # rows without provenance are nobody's
            self._describe(Provenance(_plain(experiment.parameters), __version__, []), experiment.name)
            return set()
        known = self.provenance(experiment.name)
        wanted = _plain(experiment.parameters)
        if known.parameters != wanted or known.version != __version__:
            keys = [k for k in {**wanted, **known.parameters} if wanted.get(k) != known.parameters.get(k)]
            differences = ", ".join(f"{k} {known.parameters.get(k)!r} (now {wanted.get(k)!r})" for k in keys)
            differences = differences or f"heatsketch {known.version} (now {__version__})"
            raise ValueError(
                f"{path} holds results of other parameters: {differences}. Write to another directory, or throw the "
                "old results away with --fresh (fresh=True)."
            )
        return set(self.read(experiment.name)["trial"].unique()) if path.exists() else set()

    def add(self, name: str, results: dict[int, list[Row]]) -> None:
        """Add the rows of finished trials."""
        rows = [{"figure": name, "trial": trial} | row for trial, found in results.items() for row in found]
        table = pd.DataFrame(rows)
        path = self.path(name)
        if path.exists():
            # As text, so that what is there stays as it is, digit by digit.
            text = path.read_text(encoding="utf-8") + _csv(table, header=False)
        else:
            text = _csv(table, header=True)
        write_whole(path, text)

    def finish(self, name: str, session: dict[str, Any]) -> None:
        """Put the trials in order and record how they came about."""
        table = pd.read_csv(self.path(name), dtype=str, keep_default_na=False)
        order = np.argsort(table["trial"].astype(int).to_numpy(), kind="stable")
        write_whole(self.path(name), _csv(table.iloc[order], header=True))
        known = self.provenance(name)
        started = datetime.now(UTC).strftime("%Y-%m-%d")
        sessions = [*known.sessions, {"date": started, **session, "machine": machine()}]
        self._describe(Provenance(known.parameters, known.version, sessions), name)

    def read(self, name: str) -> pd.DataFrame:
        """The table of an experiment."""
        path = self.path(name)
        try:
            table = pd.read_csv(path)
        except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as failure:
            raise ValueError(f"{path} is not a table of results ({failure}); remove it, or use --fresh.") from failure
        if not {"figure", "trial"} <= set(table.columns):
            raise ValueError(f"{path} is not a table of results: it has no columns figure and trial. Remove it.")
        return table

    def provenance(self, name: str) -> Provenance:
        """Where the table of an experiment comes from."""
        path = self.path(name, ".json")
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return Provenance(found["parameters"], found["version"], found["sessions"])
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as failure:
            raise ValueError(
                f"{path} is not a record of results ({failure!r}); remove it, or use --fresh."
            ) from failure

    def _describe(self, provenance: Provenance, name: str) -> None:
        record = {
            "parameters": provenance.parameters,
            "version": provenance.version,
            "sessions": provenance.sessions,
        }
        write_whole(self.path(name, ".json"), json.dumps(record, indent=2) + "\n")


def _plain(parameters: dict[str, Any]) -> Any:
    """As JSON gives it back: tuples are lists there."""
    return json.loads(json.dumps(parameters))


def _csv(table: pd.DataFrame, *, header: bool) -> str:
    text: str = table.to_csv(index=False, header=header, float_format=_FLOAT_FORMAT, lineterminator="\n")
    return text
