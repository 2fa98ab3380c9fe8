"""How hard the tests try to break things: a little in every run, and as hard as ``HEATSKETCH_HUNT`` says in a hunt.

``HEATSKETCH_HUNT=50`` tries fifty times as many cases, other ones each time. Without it the cases are the same in every
run, so that a change that fails is the change's fault.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

HUNT = int(os.environ.get("HEATSKETCH_HUNT", "1"))


def cases(examples: int) -> settings:
    """Try so many cases, or as many times more as a hunt asks for."""
    return settings(
        max_examples=examples * HUNT,
        deadline=None,
        derandomize=HUNT == 1,
        database=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )


def rounds(n: int) -> int:
    """Do something so many times, or as many times more as a hunt asks for."""
    return n * HUNT
