"""Compile the loops of heatsketch for its wheel: a plugin of hatchling. `python hatch_build.py` compiles them in place.

`python hatch_build.py --sanitize` compiles them with checks of memory and undefined behaviour, into a folder of their
own, and `--sanitize=thread` with checks for data races; `make test-sanitized` runs tests with them.

The compiler is that of the environment variable CC, or clang, cc or gcc, or else Zig's, which comes from PyPI. If the
environment variable HEATSKETCH_PLATFORM is one of `TARGETS`, Zig's compiler makes the wheel for that platform, on any
machine.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HOME = Path(__file__).parent / "src" / "heatsketch" / "compiled"
# Products and sums may be fused; nothing else of the arithmetic may be changed but the sign of zero.
FLAGS = ["-std=c11", "-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros"]
LINKED = ["-shared", "-fvisibility=hidden", "-Wall", "-Wextra"]
# Checked builds by GCC or Clang: the first error ends the process, with a stack of calls.
SANITIZERS = {
    "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "thread": ["-fsanitize=thread"],
}
SANITIZED = ["-O1", "-g", "-fno-omit-frame-pointer"]
# Variants of the library: the best that the processor supports is loaded.
X86_VARIANTS = {"baseline": "-march=x86-64", "x86-64-v3": "-march=x86-64-v3", "x86-64-v4": "-march=x86-64-v4"}
ARM_VARIANTS = {"baseline": "-mcpu=generic", "arm64-dotprod": "-mcpu=cortex-a76"}
# Zig's names of the platforms of wheels.
TARGETS = {
    "manylinux_2_17_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64": "aarch64-linux-gnu.2.17",
    "musllinux_1_2_x86_64": "x86_64-linux-musl",
    "musllinux_1_2_aarch64": "aarch64-linux-musl",
    "macosx_11_0_x86_64": "x86_64-macos.11.0",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
    "win_amd64": "x86_64-windows-gnu",
    "win_arm64": "aarch64-windows-gnu",
}


def installed_compiler() -> list[str] | None:
    """The command of a compiler that is installed."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"], posix=os.name != "nt")
    found = next(filter(None, map(shutil.which, ("clang", "cc", "gcc"))), None)
    return None if found is None else [found]


def compile_loops(folder: Path, wanted: str | None = None, sanitizer: str | None = None) -> list[Path]:
    """Compile all variants of the library into a folder, for this platform or for a name of `TARGETS`.

    A name of `SANITIZERS` adds its checks.
    """
    command, system, machine = installed_compiler(), sys.platform, platform.machine().lower()
    if wanted is not None or command is None:
        command = [sys.executable, "-m", "ziglang", "cc", "-fno-sanitize=undefined"]
    if wanted is not None:
        if wanted not in TARGETS:
            raise ValueError(f"no compiler for the platform {wanted!r}; known are {', '.join(TARGETS)}")
        machine, system = TARGETS[wanted].split("-")[:2]
        command += ["-target", TARGETS[wanted]]
    suffix = "dll" if system.startswith("win") else "dylib" if system.startswith(("darwin", "macos")) else "so"
    linked = LINKED if suffix == "dll" else [*LINKED, "-fPIC", "-lm"]
    is_x86, is_arm = machine in {"x86_64", "amd64"}, machine in {"aarch64", "arm64"}
    variants = X86_VARIANTS if is_x86 else ARM_VARIANTS if is_arm else {"baseline": "-O3"}
    flags = FLAGS if sanitizer is None else [*FLAGS, *SANITIZED, *SANITIZERS[sanitizer]]

    def build(variant: str) -> Path | None:
        path, processor = folder / f"loops-{variant}.{suffix}", variants[variant]
        if "ziglang" in command or Path(command[0]).stem == "zig":  # its names of processors have underscores
            processor = processor[:2] + processor[2:].replace("-", "_")
        sources = sorted(map(str, HOME.glob("*.c")))
        done = subprocess.run([*command, processor, *flags, *sources, *linked, "-o", str(path)], check=False)
        if done.returncode and variant == "baseline":
            raise RuntimeError(f"the compiler failed: {shlex.join(done.args)}")
        return None if done.returncode else path  # old compilers do not know new processors

    with ThreadPoolExecutor() as several:
        return list(filter(None, several.map(build, variants)))


class LoopsBuildHook(BuildHookInterface[Any]):
    """Adds the compiled loops to a wheel; for an editable installation they are put beside their sources."""

    def dependencies(self) -> list[str]:
        """Zig's compiler, if no other is installed or for another platform."""
        needs_zig = installed_compiler() is None or os.environ.get("HEATSKETCH_PLATFORM")
        return ["ziglang>=0.14"] if needs_zig else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the platform of the wheel; its code does not depend on the version of Python."""
        from packaging.tags import sys_tags  # noqa: PLC0415

        if version == "editable":
            compile_loops(HOME)
            return
        wanted = os.environ.get("HEATSKETCH_PLATFORM") or None
        self._folder = tempfile.TemporaryDirectory()
        paths = compile_loops(Path(self._folder.name), wanted)
        here = next(tag.platform for tag in sys_tags() if not tag.platform.startswith(("manylinux", "musllinux")))
        build_data["tag"], build_data["pure_python"] = f"py3-none-{wanted or here}", False
        build_data["force_include"].update({str(path): f"heatsketch/compiled/{path.name}" for path in paths})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the folder in which a wheel's library was compiled."""
        if version != "editable":
            self._folder.cleanup()


def main() -> None:
    """Compile for this checkout: in place, or with a sanitizer into a folder for HEATSKETCH_LOOPS."""
    parser = argparse.ArgumentParser(description="Compile the loops of heatsketch.")
    parser.add_argument("--sanitize", choices=SANITIZERS, nargs="?", const="address")
    sanitizer = parser.parse_args().sanitize
    folder = HOME if sanitizer is None else Path(__file__).parent / "build" / f"loops-{sanitizer}"
    folder.mkdir(parents=True, exist_ok=True)
    print(*compile_loops(folder, sanitizer=sanitizer), sep="\n")  # noqa: T201


if __name__ == "__main__":
    main()
