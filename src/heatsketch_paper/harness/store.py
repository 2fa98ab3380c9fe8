"""Results on disk: a table of rows and a record of its origin for each experiment, replaced atomically."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd

from heatsketch._utils.files import write_whole
from heatsketch._version import __version__

from ..errors import ReproductionError
from .experiment import Experiment, Row

__all__ = ["Provenance", "Store", "machine", "records"]

_LIBRARIES = ("numpy", "scipy", "scikit-learn")
# Six significant digits: more than a picture or a mean over trials can show, and small files.
_FLOAT_FORMAT = "%.6g"
_SESSION_KEYS = {"started", "command", "trials", "jobs", "seconds", "machine"}
_AS_TEXT: dict[str, Any] = {"dtype": str, "keep_default_na": False}
_SAME_MACHINE = ("processor", "cores", "system")


def machine(libraries: Sequence[str] = ()) -> dict[str, Any]:
    """What results may depend on: processor, system and versions; packages that are absent are left out."""
    found: dict[str, Any] = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
    for library in dict.fromkeys([*_LIBRARIES, *libraries]):
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


@dataclass(frozen=True)
class Provenance:
    """Where a table comes from.

    Attributes
    ----------
    parameters : dict
        Everything that decides the results, including the seed.
    version : str
        Of heatsketch.
    sessions : list of dict
        For each run that added cases: start, command, machine, number of cases (``trials``), processes, seconds.
    """

    parameters: dict[str, Any]
    version: str
    sessions: list[dict[str, Any]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of all sessions; a session may have None, for not recorded."""
        return float(sum(session["seconds"] or 0.0 for session in self.sessions))


class Store:
    """A directory of results: ``tables/NAME.csv`` has the rows of an experiment, ``tables/NAME.json`` their origin.

    Parameters
    ----------
    directory : path
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)

    def path(self, name: str, suffix: str = ".csv") -> Path:
        """File of a table, or of its record."""
        return self.directory / "tables" / f"{name}{suffix}"

    @property
    def names(self) -> list[str]:
        """Names of the tables in the directory."""
        found = (self.directory / "tables").glob("*.json")
        return sorted(about.stem for about in found if about.with_suffix(".csv").exists())

    def prepare(self) -> None:
        """Create the directory; raise if it holds something else."""
        others = [p for p in self.directory.glob("*") if p.name not in ("tables", "pictures") and p.name[0] != "."]
        if others and not list(self.path("").parent.glob("*.json")):
            raise ReproductionError(
                f"{self.directory} is not empty and holds no results of this command; give a new or an empty directory."
            )
        for part in ("tables", "pictures"):
            (self.directory / part).mkdir(parents=True, exist_ok=True)

    def open(self, experiment: Experiment, *, fresh: bool = False) -> list[Row]:
        """Earlier rows of an experiment.

        Results of other parameters or another version are never mixed with new ones: they raise, unless `fresh`
        removes them.
        """
        path, about = self.path(experiment.name), self.path(experiment.name, ".json")
        if fresh:
            path.unlink(missing_ok=True)
            about.unlink(missing_ok=True)
        wanted = json.loads(json.dumps(experiment.parameters))  # tuples become lists, as in the record
        if not about.exists():
            if path.exists():
                raise ReproductionError(f"{path} has no record {about.name}; move it away, or remove it with --fresh.")
            self._describe(experiment.name, Provenance(wanted, __version__))
            return []
        known = self.provenance(experiment.name)
        if known.parameters != wanted or _series(known.version) != _series(__version__):
            keys = [k for k in {**wanted, **known.parameters} if wanted.get(k) != known.parameters.get(k)]
            differences = ", ".join(f"{k} {known.parameters.get(k)!r} (now {wanted.get(k)!r})" for k in keys)
            differences = differences or f"heatsketch {known.version} (now {__version__})"
            raise ReproductionError(
                f"{path} holds results of other parameters: {differences}. Write to another directory, or remove the "
                "old results with --fresh (fresh=True)."
            )
        return records(self.read(experiment.name)) if path.exists() else []

    def require_same_machine(self, experiment: Experiment) -> None:
        """Raise if earlier results of an experiment that measures time come from another machine."""
        here = machine()
        for session in self.provenance(experiment.name).sessions:
            there = session["machine"]
            if any(key in there and there[key] != here[key] for key in _SAME_MACHINE):
                raise ReproductionError(
                    f"{self.path(experiment.name)} was measured on another machine ({there['processor']}); times of "
                    "two machines are not mixed. Use another directory (-o), or start over with --fresh."
                )

    def add(self, name: str, rows: Sequence[Row], session: dict[str, Any]) -> None:
        """Add rows to a table, which keeps its earlier text, and the session to its record."""
        path = self.path(name)
        new = pd.DataFrame([{"figure": name} | row for row in rows])
        text = new.to_csv(index=False, float_format=_FLOAT_FORMAT, lineterminator="\n")
        table = pd.read_csv(StringIO(text), **_AS_TEXT)
        if path.exists():
            table = pd.concat([pd.read_csv(path, **_AS_TEXT), table]).fillna("")
            # A second process may have finished the same trials meanwhile; times may differ, results do not.
            table = table.drop_duplicates([column for column in table if column != "seconds"])
        table = table.sort_values("trial", key=lambda column: column.astype(int), kind="stable")
        write_whole(path, table.to_csv(index=False, lineterminator="\n"))
        known = self.provenance(name)
        earlier = [s for s in known.sessions if s["started"] != session["started"]]
        self._describe(name, Provenance(known.parameters, known.version, [*earlier, session]))

    def read(self, name: str) -> pd.DataFrame:
        """Table of an experiment, in the order of its trials."""
        path = self.path(name)
        try:
            table = pd.read_csv(path)
            if set(table["figure"]) != {name}:
                raise ValueError(f"its column figure is not {name} throughout")
            if table["trial"].dtype.kind != "i":
                raise ValueError("its column trial has entries that are not integers")
        except (ValueError, KeyError) as failure:
            raise ReproductionError(
                f"{path} is not a table of results ({failure}); move it away, or remove it with --fresh (fresh=True)."
            ) from failure
        return table.sort_values("trial", kind="stable", ignore_index=True)

    def provenance(self, name: str) -> Provenance:
        """Record of the table of an experiment."""
        path = self.path(name, ".json")
        try:
            found = Provenance(**json.loads(path.read_text(encoding="utf-8")))
            if not all(session.keys() >= _SESSION_KEYS for session in found.sessions) or "seed" not in found.parameters:
                raise ValueError("entries are missing")
        except (ValueError, TypeError, AttributeError) as failure:
            raise ReproductionError(
                f"{path} is not a record of results ({failure}); move it and its table away, or remove both with "
                "--fresh (fresh=True)."
            ) from failure
        return found

    def _describe(self, name: str, provenance: Provenance) -> None:
        write_whole(self.path(name, ".json"), json.dumps(asdict(provenance), indent=2) + "\n")


def records(table: pd.DataFrame) -> list[Row]:
    """Rows of a table as dicts without the missing entries."""
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    return [{str(key): value for key, value in row.items() if value is not None} for row in rows]


def _series(version: str) -> list[str]:
    """Major and minor number: within a series results do not change, so cases may be added."""
    return version.split("+", maxsplit=1)[0].split(".")[:2]
