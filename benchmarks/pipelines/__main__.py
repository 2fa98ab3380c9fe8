"""Command line of the study of pipelines."""

from __future__ import annotations

from ..driver import main
from .page import write_page
from .trials import PIPELINES

if __name__ == "__main__":
    main("pipelines", {"labels": PIPELINES}, write_page)
