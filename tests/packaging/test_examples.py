"""What `examples/` shows is run, and what cannot be run here is checked by the tool of its trade."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("name", ["embed_async.py", "embed_threads.py"])
def test_e13_four_sessions_are_served_by_one_process(name: str, tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], capture_output=True, text=True, timeout=60, env=environ, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    *answers, count = done.stdout.splitlines()
    assert {line.split("  ")[0] for line in answers} == {
        f"{name}: echo: my name is {name}" for name in ("ann", "bob", "cy", "dee")
    }
    assert count == "1 process served 4 sessions"


def test_the_units_are_sound(tmp_path: Path) -> None:
    judge = shutil.which("systemd-analyze")
    if judge is None:
        pytest.skip("systemd-analyze is not here")
    for unit in ("ostler.service", "ostler.socket"):
        text = (EXAMPLES / unit).read_text()
        (tmp_path / unit).write_text(text.replace("/opt/ostler/bin/ostler", "/bin/true"))
    done = subprocess.run(
        [judge, "verify", "--man=no", tmp_path / "ostler.service", tmp_path / "ostler.socket"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_image_is_sound() -> None:
    judge = shutil.which("hadolint")
    if judge is None:
        pytest.skip("hadolint is not here")
    done = subprocess.run([judge, EXAMPLES / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
