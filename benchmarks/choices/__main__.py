"""Command line of the study of automatic choices."""

from __future__ import annotations

from ..driver import main
from .against_grid import AGAINST_GRID
from .coverage import COVERAGE
from .held_out import HELD_OUT
from .page import write_page
from .times import CHOICE_TIMES

PARTS = {"grid": AGAINST_GRID, "held_out": HELD_OUT, "coverage": COVERAGE, "times": CHOICE_TIMES}

if __name__ == "__main__":
    main("choices", PARTS, write_page)
