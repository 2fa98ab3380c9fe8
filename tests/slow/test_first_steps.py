"""The first ten minutes of a new user, without the installation: every step of docs/start.md runs."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_first_ten_minutes():
    script = ROOT / "examples" / "ten_minutes.py"
    ran = subprocess.run([sys.executable, str(script), "--here"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "in all" in ran.stdout
