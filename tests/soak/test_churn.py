"""The soak in its quick form, on every run: half a minute of random life, a base before and the same base after."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(240)
def test_half_a_minute_of_random_life_breaks_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak", "--seconds", "20"],
        cwd=ROOT, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=220,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
