"""Tables of results on disk, each with its provenance, written whole or not at all."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock, Timeout

from heatsketch._utils.files import left_over, write_whole
from heatsketch._version import __version__

from .errors import ReproductionError
from .experiment import Experiment, Row

__all__ = ["Provenance", "Store", "machine"]

_LIBRARIES = ("numpy", "scipy", "scikit-learn")
# Six significant digits: more than a picture or a mean of hundreds of trials can show, and small files.
_FLOAT_FORMAT = "%.6g"
_SESSION_KEYS = {"started", "command", "trials", "jobs", "seconds", "machine"}


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
        For each run that added trials: when, by which command, on which machine, how many trials, how many processes,
        how many seconds.
    """

    parameters: dict[str, Any]
    version: str
    sessions: list[dict[str, Any]] = field(default_factory=list)

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

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)

    def path(self, name: str, suffix: str = ".csv") -> Path:
        """The file of a table, or of its provenance."""
        return self.directory / "tables" / f"{name}{suffix}"

    @property
    def names(self) -> list[str]:
        """Tables that are there."""
        found = (self.directory / "tables").glob("*.json")
        return sorted(about.stem for about in found if about.with_suffix(".csv").exists())

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Keep the directory to this process; refuse one that holds something else, or is in use."""
        others = [p for p in self.directory.glob("*") if p.name not in ("tables", "pictures") and p.name[0] != "."]
        if others and not list(self.path("").parent.glob("*.json")):
            raise ReproductionError(
                f"{self.directory} is not empty and holds no results of this command; give a new or an empty directory."
            )
        (self.directory / "tables").mkdir(parents=True, exist_ok=True)
        (self.directory / "pictures").mkdir(exist_ok=True)
        try:
            with FileLock(self.directory / ".lock", timeout=0):
                for part in left_over(self.directory):  # this process alone is at work here
                    part.unlink(missing_ok=True)
                yield
        except Timeout as failure:
            raise ReproductionError(
                f"another process is writing to {self.directory}; wait for it, or give another directory."
            ) from failure

    def open(self, experiment: Experiment, *, fresh: bool = False) -> set[int]:
        """Make ready for an experiment; the trials that are there already.

        Results of other parameters or another version are never mixed with new ones: they raise, unless `fresh`
        throws them away.
        """
        path, about = self.path(experiment.name), self.path(experiment.name, ".json")
        if fresh:
            path.unlink(missing_ok=True)
            about.unlink(missing_ok=True)
        wanted = _plain(experiment.parameters)
        if not about.exists():
            if path.exists():
                raise ReproductionError(
                    f"{path} has no record {about.name} that tells where it comes from; move it away, or throw it away "
                    "with --fresh (fresh=True)."
                )
            self._describe(experiment.name, Provenance(wanted, __version__))
            return set()
        known = self.provenance(experiment.name)
        if known.parameters != wanted or _series(known.version) != _series(__version__):
            keys = [k for k in {**wanted, **known.parameters} if wanted.get(k) != known.parameters.get(k)]
            differences = ", ".join(f"{k} {known.parameters.get(k)!r} (now {wanted.get(k)!r})" for k in keys)
            differences = differences or f"heatsketch {known.version} (now {__version__})"
            raise ReproductionError(
                f"{path} holds results of other parameters: {differences}. Write to another directory, or throw the "
                "old results away with --fresh (fresh=True)."
            )
        return {int(trial) for trial in self.read(experiment.name)["trial"].unique()} if path.exists() else set()

    def add(self, name: str, results: dict[int, list[Row]], session: dict[str, Any]) -> None:
        """Add the rows of finished trials, and say how this session got so far.

        Trials that are there already are left alone: who was interrupted here may safely add them again.
        """
        path = self.path(name)
        # What is there stays as it is, digit by digit: its text is kept.
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        there = {int(line.split(",", 2)[1]) for line in before.splitlines()[1:]}
        new = {trial: found for trial, found in results.items() if trial not in there}
        rows = [{"figure": name, "trial": trial} | row for trial, found in new.items() for row in found]
        if rows:
            write_whole(path, before + _csv(pd.DataFrame(rows), header=not before))
        known = self.provenance(name)
        earlier = [s for s in known.sessions if s["started"] != session["started"]]
        self._describe(name, Provenance(known.parameters, known.version, [*earlier, session]))

    def put_in_order(self, name: str) -> None:
        """Sort a table by trial."""
        table = pd.read_csv(self.path(name), dtype=str, keep_default_na=False)
        write_whole(self.path(name), _csv(table.sort_values("trial", key=_as_int, kind="stable"), header=True))

    def read(self, name: str) -> pd.DataFrame:
        """The table of an experiment, in the order of its trials."""
        path = self.path(name)
        try:
            table = pd.read_csv(path)
            _check_table(table, name, whole=path.read_bytes().endswith(b"\n"))
        except (ValueError, KeyError, OverflowError) as failure:  # pandas raises kinds of ValueError, and the last
            raise ReproductionError(
                f"{path} is not a table of results, or not a whole one ({failure}); move it away, or throw it away "
                "with --fresh (fresh=True)."
            ) from failure
        return table.sort_values("trial", kind="stable", ignore_index=True)

    def provenance(self, name: str) -> Provenance:
        """Where the table of an experiment comes from."""
        path = self.path(name, ".json")
        try:
            found = Provenance(**json.loads(path.read_text(encoding="utf-8")))
            if not all(session.keys() >= _SESSION_KEYS for session in found.sessions) or "seed" not in found.parameters:
                raise ValueError("it lacks entries")
            if not (isinstance(found.version, str) and found.seconds >= 0.0):
                raise ValueError("its version or its seconds are of another kind")
        except (ValueError, TypeError, AttributeError, RecursionError) as failure:
            raise ReproductionError(
                f"{path} is not a record of results ({failure}); move it and its table away, or throw both away with "
                "--fresh (fresh=True)."
            ) from failure
        return found

    def _describe(self, name: str, provenance: Provenance) -> None:
        write_whole(self.path(name, ".json"), json.dumps(asdict(provenance), indent=2) + "\n")


def _check_table(table: pd.DataFrame, name: str, *, whole: bool) -> None:
    """Refuse tables of something else, and tables that lack rows or have them twice."""
    if set(table["figure"]) != {name}:
        raise ValueError(f"its column figure is not {name} throughout")
    if table["trial"].dtype.kind != "i":
        raise ValueError("its column trial holds other things than numbers of trials")
    # Only the first trial may have rows of its own, for what is drawn once.
    sizes = table[table["trial"] > 0].groupby("trial").size()
    if not whole or sizes.nunique() > 1 or table.drop(columns="seconds", errors="ignore").duplicated().any():
        raise ValueError("rows are missing, or there twice")


def _as_int(column: pd.Series) -> pd.Series:
    return column.astype(int)


def _plain(parameters: dict[str, Any]) -> Any:
    """As JSON gives it back: tuples are lists there."""
    return json.loads(json.dumps(parameters))


def _csv(table: pd.DataFrame, *, header: bool) -> str:
    text: str = table.to_csv(index=False, header=header, float_format=_FLOAT_FORMAT, lineterminator="\n")
    return text


def _series(version: str) -> list[str]:
    """Major and minor number: within a series results stay what they are, so that trials may be added."""
    return version.split("+", maxsplit=1)[0].split(".")[:2]
