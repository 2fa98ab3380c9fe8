"""The first ten minutes of a new user: install the wheel, then every step of docs/start.md, each with its time.

Run ``python examples/ten_minutes.py`` from a clone, with nothing installed. ``--here`` leaves the installation out and
uses the packages of this Python.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]

THREE_LINES = """
import heatsketch as hs
images, digits = hs.datasets.digits()
Y = hs.HeatSketch(random_state=0).fit_transform(images)
assert Y.shape == (1797, 2)
"""
QUESTIONS = """
import heatsketch as hs
model = hs.load_model("digits.heatsketch")[-1]
print(model.diagnose())
print(model.unsupported_neighbors())
print(model.stability("data"))
distance, low, high = model.diffusion_distances([[0, 1]], interval=0.95)
print(f"images 0 and 1: {distance[0]:.2f} in the picture, {low[0]:.2f} to {high[0]:.2f} in the data")
"""
CELLS = """
import heatsketch as hs
import scanpy as sc
cells = sc.datasets.pbmc68k_reduced()
hs.scanpy.heat_sketch(cells)
assert cells.obsm["X_heatsketch"].shape == (700, 2)
"""
# The last hundred digits, as rows that came later; the others are embedded.
SPLIT = """
rows = open("digits.csv").read().splitlines(keepends=True)
open("seen.csv", "w").writelines(rows[:-100])
open("later.csv", "w").writelines([rows[0], *rows[-100:]])
"""


def steps(python: str, heatsketch: str) -> list[tuple[str, list[list[str]]]]:
    """Titles and commands."""
    embed = [heatsketch, "embed"]
    table = [
        [heatsketch, "datasets", "digits", "-o", "digits.csv"],
        [*embed, "digits.csv", "--label", "digit", "--report", "page.html"],
    ]
    later = [
        [python, "-c", SPLIT],
        [*embed, "seen.csv", "--label", "digit", "--save", "digits.heatsketch"],
        [heatsketch, "transform", "digits.heatsketch", "later.csv", "--label", "digit", "-o", "placed.csv"],
    ]
    return [
        ("a table, and a page of it", table),
        ("three lines of Python", [[python, "-c", THREE_LINES]]),
        ("a saved model, and new rows in its picture", later),
        ("what to believe", [[python, "-c", QUESTIONS]]),
        ("single cells with scanpy", [[python, "-c", CELLS]]),
    ]


def main(arguments: list[str] | None = None) -> None:
    """Run all steps in an empty folder and print the seconds of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--here", action="store_true", help="use the packages of this Python")
    here = parser.parse_args(arguments).here
    with tempfile.TemporaryDirectory() as folder:
        python, timed = sys.executable, []
        if not here:
            python = str(Path(folder) / "env" / ("Scripts" if os.name == "nt" else "bin") / "python")
            timed.append(("install the wheel with plots and scanpy", seconds(install(folder, python), folder)))
        heatsketch = str(Path(python).with_name("heatsketch"))
        timed += [(title, seconds(commands, folder)) for title, commands in steps(python, heatsketch)]
    print()
    for title, taken in timed:
        print(f"{taken:6.1f} s  {title}")
    print(f"{sum(taken for _, taken in timed):6.1f} s  in all")


def install(folder: str, python: str) -> list[list[str]]:
    """Commands that build the wheel and install it into a new environment."""
    wheels = str(Path(folder) / "wheels")
    script = (
        "import pathlib, subprocess, sys; wheel = next(pathlib.Path(sys.argv[1]).glob('heatsketch-*.whl')); "
        "subprocess.run([sys.executable, '-m', 'pip', 'install', '--quiet', f'{wheel}[plot,scanpy]'], check=True)"
    )
    return [
        [sys.executable, "-m", "venv", str(Path(folder) / "env")],
        [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, str(ROOT)],
        [python, "-c", script, wheels],
    ]


def seconds(commands: list[list[str]], folder: str) -> float:
    """Run commands one after another; the seconds that they take."""
    start = time.perf_counter()
    for command in commands:
        print("$", " ".join(part if "\n" not in part else "..." for part in command), flush=True)
        subprocess.run(command, cwd=folder, check=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
