"""Past launchers, to what really runs."""

from pathlib import Path

import pytest

from ostler.pool.errors import AgentMissing
from ostler.pool.launch.finder import PathFinder


def runnable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_link_to_a_script_is_started_by_node_itself(tmp_path: Path) -> None:
    script = runnable(tmp_path / "lib/node_modules/agent/bundle/agent.js")
    node = runnable(tmp_path / "bin/node")
    (tmp_path / "bin/agent").symlink_to(script)
    assert PathFinder(str(tmp_path / "bin")).node_script("agent", install="i") == (str(node), str(script))


def test_a_command_that_is_no_script_is_taken_as_it_is(tmp_path: Path) -> None:
    agent = runnable(tmp_path / "agent")
    finder = PathFinder(str(tmp_path))
    assert finder.node_script("agent", install="i") == (str(agent),)
    assert finder.native("agent", pattern="x", install="i") == str(agent)


@pytest.mark.parametrize("nested", [True, False])
def test_the_binary_behind_a_launcher_is_found(tmp_path: Path, nested: bool) -> None:
    modules = tmp_path / "lib/node_modules"
    script = runnable(modules / "@a/agent/bin/agent.js")
    home = modules / "@a/agent/node_modules" if nested else modules
    binary = runnable(home / "@a/agent-linux-x64/vendor/musl/bin/agent")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/agent").symlink_to(script)
    finder = PathFinder(str(tmp_path / "bin"))
    assert finder.native("agent", pattern="@a/agent-*/vendor/*/bin/agent", install="i") == str(binary)


def test_a_launcher_without_its_binary_is_started_itself(tmp_path: Path) -> None:
    script = runnable(tmp_path / "node_modules/agent/agent.js")
    (tmp_path / "agent").symlink_to(script)
    finder = PathFinder(str(tmp_path))
    assert finder.native("agent", pattern="agent-*/agent", install="i") == str(tmp_path / "agent")


def test_what_is_missing_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(AgentMissing, match="install it with: npm x") as caught:
        PathFinder(str(tmp_path)).program("agent", install="npm x")
    assert caught.value.program == "agent"
