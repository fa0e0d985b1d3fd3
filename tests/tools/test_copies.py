"""A copy of the command is to be told from a fresh start by its speed only."""

import os
from pathlib import Path

import pytest

from tests.support import copies

MORE_THAN_A_PIPE_HOLDS = "x" * 300_000


@pytest.mark.parametrize("whole", [False, True])
def test_a_command_that_ends_without_hearing_all_is_judged_by_its_exit_code(tmp_path: Path, whole: bool) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = copies.run(["--version"], cwd=tmp_path, env=environ, given=MORE_THAN_A_PIPE_HOLDS, whole=whole)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ostler ")
