"""What section 5.4 says, on the multiscale analysis."""

from __future__ import annotations

from .evidence import Claim, above, gap, log_L
from .judges import nearly, steps

__all__ = ["MULTISCALE"]

_CIRCLE_POWERS = [2**i for i in range(1, 9)]

MULTISCALE: tuple[Claim, ...] = (
    Claim(
        "multiscale_low_powers",
        "5.4, torus; Figure 6(a)",
        "At low powers GPS struggles nearly as much as DMS.",
        "Mean log L of GPS above 0.9 times that of DMS at p = 2 and 4.",
        ("multiscale_torus",),
        nearly,
    ),
    Claim(
        "multiscale_middle_powers",
        "5.4, torus; Figure 6(a)",
        "At p = 16 and 32 GPS is a clear improvement.",
        "Mean log L of DMS less GPS above 0 at p = 16 and 32.",
        ("multiscale_torus",),
        lambda t: above(gap(t, "DMS", "GPS", (16, 32), "p")),
    ),
    Claim(
        "multiscale_worsens",
        "5.4, torus; Figure 6(a)",
        "As p increases further, GPS gets progressively worse.",
        "Mean log L of GPS grows from each power to the next, from p = 32 to 1024.",
        ("multiscale_torus",),
        lambda t: above(steps(t, [2**i for i in range(5, 11)])),
    ),
    Claim(
        "multiscale_surpasses",
        "5.4, torus; Figure 6(a)",
        "Eventually its L surpasses that of DMS.",
        "Mean log L of GPS less DMS above 0 at p = 1024.",
        ("multiscale_torus",),
        lambda t: above(gap(t, "GPS", "DMS", (1024,), "p")),
    ),
    Claim(
        "multiscale_circle_similar",
        "5.4, circle; Figure 6(b)",
        "On the circle GPS behaves similarly: best at middle powers.",
        "Mean log L of GPS at p = 2 and at p = 256 less that at p = 16 above 0.",
        ("multiscale_circle",),
        lambda t: above({f"p = {p} less p = 16": log_L(t, "GPS", p, "p") - log_L(t, "GPS", 16, "p") for p in (2, 256)}),
    ),
    Claim(
        "multiscale_circle_dm_better",
        "5.4, circle; Figure 6(b)",
        "There DMS is consistently better than GPS.",
        "Mean log L of GPS less DMS above 0 at every p.",
        ("multiscale_circle",),
        lambda t: above(gap(t, "GPS", "DMS", _CIRCLE_POWERS, "p")),
    ),
)
