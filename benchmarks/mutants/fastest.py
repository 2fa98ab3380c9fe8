"""A plugin of pytest for the runs of mutmut: tests that are soon done come first, for the first to fail is the last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

# Where tests are run mutmut has written how long each takes.
_STATISTICS = Path("mutmut-stats.json")


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Put the tests in order."""
    if _STATISTICS.exists():
        seconds = json.loads(_STATISTICS.read_text(encoding="utf-8"))["duration_by_test"]
        items.sort(key=lambda item: seconds.get(item.nodeid, 0.0))
