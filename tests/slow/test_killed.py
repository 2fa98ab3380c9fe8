"""A command that is ended while it writes leaves the old output, and the next run replaces it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import heatsketch as hs

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")

# The process ends itself when the first array is in the temporary file: the same moment in every run.
_ENDED = """
import os, sys
import numpy as np
import heatsketch.io.models
from heatsketch.cli import main
written = np.lib.format.write_array
def write_and_end(*arguments, **options):
    written(*arguments, **options)
    os.kill(os.getpid(), int(sys.argv[1]))
np.lib.format.write_array = write_and_end
main(sys.argv[2:])
"""
_EMBED = ("embed", "points.csv", "--save", "m.heatsketch", "--method", "gaussian-process", "-p", "4", "-q")


@pytest.mark.parametrize(("ended", "code"), [(9, -9), (signal.SIGTERM, 143)])
def test_ended_command_leaves_the_old_output(tmp_path, ended, code):
    pd.DataFrame(hs.datasets.circle(60, random_state=0), columns=["a", "b"]).to_csv(tmp_path / "points.csv")
    (tmp_path / "m.heatsketch").write_text("as it was")
    paths = os.pathsep.join([str(Path(hs.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    options = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": paths}}
    done = subprocess.run([sys.executable, "-c", _ENDED, str(int(ended)), *_EMBED], check=False, **options)
    assert done.returncode == code
    assert (tmp_path / "m.heatsketch").read_text() == "as it was"
    if ended == signal.SIGTERM:  # SIGKILL leaves no time to remove the temporary file
        assert {one.name for one in tmp_path.iterdir()} == {"m.heatsketch", "points.csv"}
    assert subprocess.run([sys.executable, "-m", "heatsketch", *_EMBED], check=False, **options).returncode == 0
    assert np.shape(hs.load_model(tmp_path / "m.heatsketch")[-1].embedding_) == (60, 2)
