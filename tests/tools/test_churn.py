"""The churn in its quick form, on every run: some seconds of random life, a base before and the same base after."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_some_seconds_of_random_life_break_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.churn", "--seconds", "4"],
        cwd=ROOT, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=220,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
