"""Command line of the study of HeatSketch."""

from __future__ import annotations

from ..driver import main
from .charts import CHARTS
from .deflation import DEFLATION
from .further import FURTHER
from .gap import GAP
from .page import write_page
from .times import TIMES

PARTS = {"charts": CHARTS, "deflation": DEFLATION, "gap": GAP, "further": FURTHER, "times": TIMES}

if __name__ == "__main__":
    main("study", PARTS, write_page)
