"""A fitted embedding as one HTML page that works offline.

`contents` computes everything that the page shows, `points` prepares points and columns for drawing, and `page` writes
the file from the template in `assets/`. The package uses the estimators, `analysis` and `compare`; only the command
line uses it.
"""

from .page import write_report

__all__ = ["write_report"]
