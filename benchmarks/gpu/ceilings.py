"""What the chip can do at best, measured in the same run."""

from __future__ import annotations

from typing import Any

from heatsketch.backends.torch.device import full_precision

from .bench import Bench, timing

__all__ = ["ceilings"]

_PROGRAMS = 64  # to a multiprocessor
_AT_ONCE = 5  # products of matrices that are timed together


def ceilings(bench: Bench) -> None:
    """Copies, products of matrices, and exponentials; each as the best of some runs."""
    _copy(bench)
    for kind in ("float16", "bfloat16", "float32"):
        _products(bench, kind)
    _exponentials(bench)


def _copy(bench: Bench) -> None:
    size = bench.plan.copied
    with bench.case(
        what="copy", way=f"{size >> 20} MiB from the device to itself; read and written", unit="GB/s"
    ) as row:
        torch = bench.device.torch
        a = torch.zeros(size, dtype=torch.uint8, device=bench.device.name)
        b = torch.empty_like(a)
        row.update(timing(bench.seconds(lambda: b.copy_(a))))
        row["best"] = 2 * size / row["fastest_s"] / 1e9


def _products(bench: Bench, kind: str) -> None:
    n = bench.plan.matrix
    way = f"{n} x {n} matrices of random normals" + (", without TF32" if kind == "float32" else "")
    with bench.case(what=kind, way=way, unit="TFLOP/s") as row, full_precision():
        torch = bench.device.torch
        A, B = (torch.randn(n, n, device=bench.device.name).to(getattr(torch, kind)) for _ in range(2))
        C = torch.empty_like(A)

        def work() -> None:
            for _ in range(_AT_ONCE):
                torch.mm(A, B, out=C)

        row.update(timing(bench.seconds(work)))
        row["best"] = 2.0 * n**3 * _AT_ONCE / row["fastest_s"] / 1e12


def _exponentials(bench: Bench) -> None:
    with bench.case(what="exp2", unit="10^12/s") as row:
        count, work, row["way"] = _in_registers(bench) if bench.device.is_cuda else _in_cache(bench)
        row.update(timing(bench.seconds(work)))
        row["best"] = count / row["fastest_s"] / 1e12


def _in_registers(bench: Bench) -> tuple[float, Any, str]:
    from .exponentials import BLOCK, exponentials_kernel  # noqa: PLC0415

    torch, rounds = bench.device.torch, bench.plan.exponentials
    programs = _PROGRAMS * bench.device.multiprocessors
    out = torch.empty(programs * BLOCK, dtype=torch.float32, device=bench.device.name)

    def work() -> None:
        with torch.cuda.device(bench.device.name):
            exponentials_kernel[(programs,)](out, rounds, num_warps=4)

    return float(rounds) * programs * BLOCK, work, "in registers, by Triton"


def _in_cache(bench: Bench) -> tuple[float, Any, str]:
    torch = bench.device.torch
    x = torch.rand(1 << 16, device=bench.device.name)
    out = torch.empty_like(x)
    return float(len(x)), lambda: torch.exp2(x, out=out), "of 65,536 numbers, by PyTorch"
