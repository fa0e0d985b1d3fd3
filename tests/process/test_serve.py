"""`ostler serve` makes its round trip and leaves nothing."""

import subprocess
import sys


def test_serve_answers_and_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ostler.gateway", "serve"], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "echo: hello" in done.stdout


def test_serve_takes_no_arguments() -> None:
    done = subprocess.run([sys.executable, "-m", "ostler.gateway", "serve", "x"], capture_output=True, check=False)
    assert done.returncode == 2
