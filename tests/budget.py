"""Number of random cases: few and always the same by default, or new ones, ``HEATSKETCH_HUNT`` times as many."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

HUNT = int(os.environ.get("HEATSKETCH_HUNT", "1"))


def cases(examples: int) -> settings:
    """Settings of Hypothesis for this many cases, times the factor of a hunt."""
    return settings(
        max_examples=examples * HUNT,
        deadline=None,
        derandomize=HUNT == 1,
        database=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )


def rounds(n: int) -> int:
    """A number of repetitions, times the factor of a hunt."""
    return n * HUNT
