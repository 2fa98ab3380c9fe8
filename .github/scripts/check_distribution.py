"""Check a wheel or a source archive as its users get it: what it holds, that it installs, and that it works.

    python .github/scripts/check_distribution.py dist/heatsketch-0.1.0-py3-none-win_amd64.whl

The file is installed into a new environment of the Python that runs this script. Some tests of this checkout, of a
minute or two, then run against what was installed.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"heatsketch-(?P<version>[^-]+)(\.tar\.gz|-py3-none-(?!any)\w+\.whl)")
TESTS = [
    "tests/compiled",
    "tests/test_reference.py",
    "tests/test_golden.py",
    "tests/test_structure.py",
    "tests/kernel/test_normalize.py",
    "tests/linalg/test_filters.py",
    "tests/io/test_models.py",
]
MODEL = """
import numpy as np
import heatsketch as hs

images, _ = hs.datasets.digits()
model = hs.GaussianProcessEmbedding(n_components=8, random_state=0).fit(images[:500])
hs.save_model(model, "model.heatsketch")
loaded = hs.load_model("model.heatsketch")
assert np.array_equal(loaded.transform(images[500:600]), model.transform(images[500:600]))
print(hs.__file__)
"""


def check_contents(path: Path, version: str) -> None:
    """The file holds what it should, and no strays."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            names = wheel.namelist()
        folders = {name.partition("/")[0] for name in names}
        wanted = {"heatsketch", "heatsketch_paper", f"heatsketch-{version}.dist-info"}
        require(folders == wanted, f"folders {sorted(folders)}, expected {sorted(wanted)}")
        compiled = [name for name in names if name.startswith("heatsketch/compiled/loops-baseline.")]
        require(len(compiled) == 1, f"compiled loops: {compiled}, expected one baseline")
        needed = {"heatsketch/py.typed", f"heatsketch-{version}.dist-info/licenses/LICENSE"}
        strays = r"__pycache__|\.py[co]$"
    else:
        with tarfile.open(path) as archive:
            names = [name.removeprefix(f"heatsketch-{version}/") for name in archive.getnames()]
        needed = {"LICENSE", "README.md", "PKG-INFO", "pyproject.toml", "hatch_build.py", "tests/conftest.py"}
        strays = r"__pycache__|\.py[co]$|^(\.venv|out|dist|build)/|loops-[^/]*\.(so|dylib|dll)$"
    require(needed <= set(names), f"missing: {sorted(needed - set(names))}")
    found = [name for name in names if re.search(strays, name)]
    require(not found, f"files that do not belong there: {found}")
    report(f"{path.name}: {len(names)} files, {path.stat().st_size / 1e6:.1f} MB")


def check_installed(path: Path, version: str, folder: Path) -> None:
    """Install the file into an environment in `folder`, and use it on the command line and in Python."""
    run([sys.executable, "-m", "venv", folder / "env"], folder)
    programs = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    python, command = programs / "python", programs / "heatsketch"

    run([python, "-m", "pip", "install", "--quiet", path], folder)
    run([python, "-m", "pip", "check"], folder)
    shown = run([command, "--version"], folder).stdout.strip()
    require(shown == f"heatsketch {version}", f"heatsketch --version shows {shown!r}")

    # Without extras.
    run([python, "-m", "heatsketch", "datasets", "digits", "-o", "digits.csv"], folder)
    embed: list[str | Path] = [command, "embed", "digits.csv", "--label", "digit", "-o", "embedding.csv"]
    refused = run([*embed, "--report", "page.html"], folder, fails=True).stderr
    require("heatsketch[plot]" in refused, f"the error does not name the extra that is missing: {refused}")
    left = [name for name in ("embedding.csv", "page.html") if (folder / name).exists()]
    require(not left, f"a refused command left {left}")
    run(embed, folder)
    rows = (folder / "embedding.csv").read_text(encoding="utf-8").splitlines()
    require(len(rows) == 1798, f"embedding.csv has {len(rows)} rows, expected 1797 and a header")
    home = Path(run([python, "-c", MODEL], folder).stdout.strip())
    require(home.is_relative_to(folder / "env"), f"heatsketch was imported from {home}")

    # With extras, and the tests of the checkout.
    run([python, "-m", "pip", "install", "--quiet", f"heatsketch[plot,graph] @ {path.as_uri()}", "pytest"], folder)
    run([*embed, "--report", "page.html"], folder)
    page = (folder / "page.html").read_text(encoding="utf-8")
    require(page.lower().startswith("<!doctype html>") and len(page) > 1e5, f"page.html begins with {page[:80]!r}")
    run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS], ROOT)


def run(command: Sequence[str | Path], folder: Path, *, fails: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, show what it wrote, and require that it succeeds, or fails."""
    report(f"$ {shlex.join(map(str, command))}" if "-c" not in command else "$ python -c ...")
    variables = {"PYTHONPATH": "", "PYTHONUTF8": "1", "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "200"}
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    report((done.stdout + done.stderr).rstrip())
    require(bool(done.returncode) == fails, f"exit status {done.returncode}")
    return done


def require(holds: bool, problem: str) -> None:
    """Stop with the problem if something does not hold."""
    if not holds:
        raise SystemExit(f"FAILED: {problem}")


def report(text: str) -> None:
    """Print text at once."""
    print(text, flush=True)  # noqa: T201


def main(arguments: list[str]) -> None:
    """Check each file that is named."""
    require(bool(arguments), "name the files to check, such as dist/*.whl")
    for argument in arguments:
        path = Path(argument).resolve()
        matched = NAME.fullmatch(path.name)
        version = matched["version"] if matched else ""
        require(bool(version), f"{path.name} is neither a wheel for a platform nor a source archive of heatsketch")
        check_contents(path, version)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            check_installed(path, version, Path(folder).resolve())
    report("Everything holds.")


if __name__ == "__main__":
    main(sys.argv[1:])
