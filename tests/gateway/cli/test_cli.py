"""The table of commands: exit codes, and that a command's code is imported only when it runs."""

import os
import subprocess
import sys
from importlib.metadata import version

import pytest

from ostler.demo.agent import VERSION
from ostler.demo.launch import command_line
from ostler.gateway.__main__ import command, command_names, main


def test_help_lists_every_command_and_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert [name for name in command_names() if f"  {name}" not in shown] == []


@pytest.mark.parametrize("words", [[], ["no-such-command"], ["__init__"], ["agent"], ["agent", "no-such-agent"]])
def test_a_wrong_call_exits_2_and_explains_on_stderr(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "usage: ostler" in err


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_the_agents_command_explains_itself_on_stdout(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", word]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("usage: ostler agent {demo}")
    assert err == ""


def test_version_is_the_installed_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("ostler 0.")


@pytest.mark.parametrize("name", command_names())
def test_every_command_says_what_it_does(name: str) -> None:
    module = command(name)
    assert module.SUMMARY
    assert callable(module.run)


def test_the_demo_agent_names_the_installed_version() -> None:
    assert version("ostler") == VERSION


def test_the_table_itself_imports_no_command() -> None:
    probe = "import sys, ostler.gateway.__main__; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True, text=True)
    assert [name for name in shown.stdout.split() if name.startswith("ostler.gateway.cli")] == []


def test_the_demo_agent_starts_without_what_is_slow_to_import() -> None:
    bare, *rest = command_line([])
    timed = subprocess.run([bare, "-X", "importtime", *rest], input="", capture_output=True, check=True, text=True)
    loaded = {line.rpartition("|")[2].strip() for line in timed.stderr.splitlines()}
    assert "ostler.demo.agent" in loaded
    slow = {"asyncio", "typing", "dataclasses", "argparse", "pathlib", "runpy", "subprocess", "socket", "logging"}
    assert loaded & slow == set()


def test_a_gateway_starts_without_rich_and_whoever_wants_it_afterwards_gets_it() -> None:
    probe = """
import sys
from ostler.gateway.server.importing import importing
with importing():
    import ostler.gateway.server.app, ostler.gateway.ops.log
print(*(name for name in sys.modules if name.partition(".")[0] == "rich"))
import rich
"""
    shown = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True, text=True)
    assert shown.stdout.split() == []


def test_a_peer_that_is_gone_is_a_failure_and_a_reader_that_left_is_none() -> None:
    code = "import sys; from ostler.gateway.exit_codes import carried_out\n"
    code += "def work(): raise BrokenPipeError(32, 'gone')\n"
    line = [sys.executable, "-c", f"{code}sys.exit(carried_out('ostler', work))"]
    heard = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (heard.returncode, heard.stderr) == (1, "ostler: gone\n")
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb", buffering=0) as left:
        unheard = subprocess.run(line, stdout=left, stderr=subprocess.PIPE, text=True, check=False)
    assert (unheard.returncode, unheard.stderr) == (0, "")
