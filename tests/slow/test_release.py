"""Wheel and source archive: complete, and with the version of the git tag."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _git(*arguments, cwd):
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    return subprocess.run(["git", *who, *arguments], cwd=cwd, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Wheel and archive of the present tree under the tag v9.8.7."""
    if shutil.which("git") is None:
        pytest.skip("versions come from git, which is not there")
    tree, out = tmp_path_factory.mktemp("tree") / "heatsketch", tmp_path_factory.mktemp("out")
    left_out = shutil.ignore_patterns(".git", ".venv", "out", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(ROOT, tree, ignore=left_out)
    _git("init", "--quiet", cwd=tree)
    _git("add", "--all", cwd=tree)
    _git("commit", "--quiet", "--message", "all", cwd=tree)
    _git("tag", "v9.8.7", cwd=tree)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(out)], cwd=tree, capture_output=True, check=True
    )
    return out


def test_version_is_that_of_the_tag(built):
    wheel, archive = sorted((p.name for p in built.iterdir()), key=lambda name: name.endswith(".tar.gz"))
    assert re.fullmatch(r"heatsketch-9\.8\.7-py3-none-(?!any)\w+\.whl", wheel)
    assert archive == "heatsketch-9.8.7.tar.gz"


def test_wheel_holds_the_packages_and_nothing_else(built):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        held = {name for name in wheel.namelist() if not name.startswith("heatsketch-9.8.7.dist-info/")}
        metadata = wheel.read("heatsketch-9.8.7.dist-info/METADATA").decode()
        scripts = wheel.read("heatsketch-9.8.7.dist-info/entry_points.txt").decode()
    source = ROOT / "src"
    files = (path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert held == {path.relative_to(source).as_posix() for path in files}
    assert "heatsketch/py.typed" in held
    assert "heatsketch = heatsketch.cli:main" in scripts
    assert set(re.findall(r"^Provides-Extra: (.*)$", metadata, re.M)) == set(PROJECT["optional-dependencies"])


def test_a_wheel_can_be_built_from_the_archive_alone(built, tmp_path):
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    tree = tmp_path / "heatsketch-9.8.7"
    assert (tree / "tests").is_dir()
    assert (tree / "docs").is_dir()
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=tree, capture_output=True, check=True
    )
    assert [p.name for p in (tree / "dist").glob("*.whl")] == [p.name for p in built.glob("*.whl")]
