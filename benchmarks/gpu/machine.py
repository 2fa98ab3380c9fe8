"""The chip, the machine and the versions that results are of."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

from heatsketch.backends.torch.device import Device

from ..scale.machine import described

__all__ = ["describe"]

_LIBRARIES = ("heatsketch", "numpy", "scipy", "scikit-learn", "numba", "torch", "triton", "pykeops")
_ASKED = {"driver": "driver_version", "power_limit": "power.limit", "clock": "clocks.max.sm"}


def describe(device: Device) -> dict[str, Any]:
    """What results are of; without names of machines, places or times."""
    found: dict[str, Any] = {"chip": device.chip, **described(_LIBRARIES)}
    if device.is_cuda:
        torch = device.torch
        about = torch.cuda.get_device_properties(device.name)
        found |= {"multiprocessors": about.multi_processor_count, "device_gib": round(about.total_memory / 2**30, 1)}
        found["versions"]["CUDA"] = str(torch.version.cuda)
        found |= _asked()
    return found


def _asked() -> dict[str, str]:
    """What the driver tells of the first GPU; nothing where it cannot be asked."""
    if shutil.which("nvidia-smi") is None:
        return {}
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(_ASKED.values())}", "--format=csv,noheader"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(zip(_ASKED, (part.strip() for part in told.strip().split(",")), strict=False))
