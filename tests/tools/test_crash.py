"""The crashes in their quick form, on every run: five kills beside backups, vacuums, readers and writers of
others, a full disk, a writer that is stopped with the lock."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_n18_h13_rh1_h03_a_gateway_that_is_killed_beside_other_programs_loses_and_doubles_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.soak.crash", "--kills", "5", "--full", "1", "--stops", "1"],
        cwd=ROOT, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
