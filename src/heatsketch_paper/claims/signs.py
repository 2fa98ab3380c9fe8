"""What section 5.3 says, on sketches with symmetric Bernoulli matrices."""

from __future__ import annotations

from .evidence import Claim
from .judges import alike, signs_cost_little, signs_gain

__all__ = ["SIGNS"]

_OURS = "The paper gives no parameters for its clouds; these are ours."
# Data on which the paper tries signs: table, in words, place, note.
_SIGNS = (
    ("klein_bottle", "Klein bottle", "5.3; Figure 5(a)", ""),
    ("gaussian_clouds", "Gaussian clouds", "5.3; Figure 5(b)", _OURS),
)

SIGNS: tuple[Claim, ...] = (
    *(
        Claim(
            f"signs_alike_{name}",
            place,
            f"Bernoulli and Gaussian sketches perform alike: {what}.",
            "Mean difference GPS - GPSBS (positive: signs are better) below one error bar, or 0.1, at every k.",
            (name,),
            lambda t: alike(t, "GPS", "GPSBS"),
            note,
        )
        for name, what, place, note in _SIGNS
    ),
    *(
        Claim(
            f"signs_no_disadvantage_{name}",
            place,
            f"There is no significant disadvantage in replacing Gaussians by signs: {what}.",
            "Mean over k of log L of GPSBS less GPS below 0.1 (10% in L).",
            (name,),
            signs_cost_little,
            note,
        )
        for name, what, place, note in _SIGNS
    ),
    *(
        Claim(
            f"signs_slight_advantage_{name}",
            place,
            f"With the bistochastic kernel signs have a slight advantage: {what}.",
            "Mean over k of log L of GPB less GPSBB above 0.",
            (name,),
            signs_gain,
            note,
        )
        for name, what, place, note in _SIGNS
    ),
    *(
        Claim(
            f"signs_hidden_{name}",
            place,
            f"The curve of GPSBB is hidden by that of GPSBS: {what}.",
            "Mean difference below 0.1, which cannot be seen in the chart, at every k.",
            (name,),
            lambda t: alike(t, "GPSBS", "GPSBB", visibly=True),
            note,
        )
        for name, what, place, note in _SIGNS
    ),
)
