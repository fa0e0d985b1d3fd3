"""`ostler chat`: typed by a person into a real terminal, and run by scripts without one."""

import re
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from tests.support.serve_command import command
from tests.support.terminal import CTRL_C, CTRL_D, NEW_LINE, TAB, UP, chat_line, environment, script, terminal
from tests.support.witness import tree, witness

PROMPT = "›"
pytestmark = pytest.mark.long


def test_a_newcomer_types_one_command_and_gets_answers(tmp_path: Path) -> None:
    with terminal(tmp_path, whole=True) as tty:
        tty.until(PROMPT)
        tty.say("hello")
        tty.until("echo: hello")
        tty.until(PROMPT)
        tty.press("two", NEW_LINE, "lines")
        tty.say("")
        tty.until("echo: two\n")
        tty.until("echo: lines")
        tty.until(PROMPT)
        below = tree(tty.process.pid) - {witness(tty.process.pid)}
        assert below
        tty.press(CTRL_D)
        assert tty.ends() == 0
    # Relays are orphans when their agent is gone, and may wait as zombies for whoever reaps orphans here.
    assert [process for process in below if process.alive] == []


def test_ctrl_c_cancels_the_turn_and_not_the_program(tmp_path: Path) -> None:
    with terminal(tmp_path) as tty:
        tty.until(PROMPT)
        tty.press("part", NEW_LINE, "!late")
        tty.say("")
        tty.until("waiting")
        tty.press(CTRL_C)
        tty.until("Stopped.")
        tty.until(PROMPT)
        tty.press("half a line", CTRL_C)
        tty.until(PROMPT)
        tty.say("!recall")
        tty.until("part\n")
        tty.until(PROMPT)
        tty.press(CTRL_D)
        assert tty.ends() == 0
    assert "half a line" not in tty.screen.rpartition("part\n")[2]


def test_ctrl_c_twice_leaves_an_agent_that_does_not_hear_it(tmp_path: Path) -> None:
    with terminal(tmp_path) as tty:
        tty.until(PROMPT)
        tty.press("said", NEW_LINE, "!hang")
        tty.say("")
        tty.until("echo: said")
        tty.press(CTRL_C)
        tty.until("Stopping")
        tty.press(CTRL_C)
        tty.until("No longer listening")
        tty.until(PROMPT)
        tty.press(CTRL_D)
        assert tty.ends() == 130


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_closed_terminal_leaves_nothing_behind(tmp_path: Path, number: int) -> None:
    with terminal(tmp_path) as tty:
        tty.until(PROMPT)
        tty.say("hello")
        tty.until("echo: hello")
        tty.until(PROMPT)
        agents = tree(tty.process.pid)
        tty.process.send_signal(number)
        assert tty.ends() == 1
    assert [str(agent) for agent in agents if agent.alive] == []
    assert "Traceback" not in tty.screen


def test_words_are_completed_activity_is_dim_and_history_is_private(tmp_path: Path) -> None:
    with terminal(tmp_path) as tty:
        tty.until(PROMPT)
        tty.press("/und")
        tty.until("take back the last turns")
        tty.press(TAB)
        tty.say("")
        tty.until("nothing to take back")
        tty.until(PROMPT)
        tty.say("!call nothing {}")
        tty.until("· Tool nothing: failed")
        assert b"\x1b[2m\xc2\xb7 Tool nothing" in tty.raw
        tty.until(PROMPT)
        tty.press(CTRL_D)
        tty.ends()
    history = tmp_path / "data" / "chat-history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    with terminal(tmp_path) as tty:
        tty.until(PROMPT)
        tty.press(UP)
        tty.until("!call nothing {}")
        tty.press(CTRL_C, CTRL_D)


def test_f22_permission_is_asked_there_and_then(tmp_path: Path) -> None:
    with terminal(tmp_path, OSTLER_POOL__PERMISSIONS="ask") as tty:
        for key, answer in (("y", "allow_once"), ("n", "reject_once"), ("a", "allow_once")):
            tty.until(PROMPT)
            tty.say("!ask remove it")
            tty.until("Allow remove it? [y/N/always]")
            tty.say(key)
            tty.until(f"selected: {answer}")
        # Nobody is asked again after a yes for the whole session.
        tty.until(PROMPT)
        tty.say("!ask remove it\nafter")
        tty.until("selected: allow_once")
    refused = script(tmp_path, "--once", "!ask remove it", OSTLER_POOL__PERMISSIONS="ask")
    assert "selected: reject_once" in refused.stdout
    assert "nobody is here" in refused.stderr


@pytest.mark.parametrize("policy", ["cancel", "continue"])
def test_n50_ctrl_c_stops_the_agent_also_where_it_asks_for_permission(tmp_path: Path, policy: str) -> None:
    environ = {"OSTLER_POOL__PERMISSIONS": "ask", "OSTLER_GATEWAY__ON_DISCONNECT": policy}
    with command(tmp_path, **environ) as gateway, terminal(tmp_path, **environ) as tty:
        for question, shown in (("!ask remove it", "Allow remove it? [y/N/always]"), ("!late", "waiting")):
            tty.until(PROMPT)
            tty.press("begun", NEW_LINE, question)
            tty.say("")
            tty.until(shown)
            tty.press(CTRL_C)
            tty.until("Stopped.")
            with gateway.http() as http:
                assert http.get("/admin/pool").json()["running_turns"] == 0


def test_a_script_gets_the_answer_and_nothing_else(tmp_path: Path) -> None:
    once = script(tmp_path, "--once", "hello\x1b[31m red")
    assert (once.returncode, once.stdout, once.stderr) == (0, "echo: hello[31m red\n", "")
    piped = script(tmp_path, stdin="one\ntwo\n")
    assert (piped.returncode, piped.stdout) == (0, "echo: one\necho: two\n")
    lines = script(tmp_path, "--lines", stdin="one\n\n!recall\n/undo\n")
    assert lines.returncode == 0
    assert lines.stdout.splitlines()[:2] == ["echo: one", "one"]
    dashed = script(tmp_path, "--once", "-", stdin="three")
    assert dashed.stdout == "echo: three\n"


def test_exit_codes_say_how_it_went(tmp_path: Path) -> None:
    assert script(tmp_path, "--once", "!die").returncode == 1
    unknown = script(tmp_path, "--once", "/hlep")
    assert (unknown.returncode, "/help" in unknown.stdout) == (1, True)
    assert script(tmp_path, "--nonsense").returncode == 2
    nobody = script(tmp_path, "--once", "hi", "--url", "http://127.0.0.1:9")
    assert nobody.returncode == 1
    assert "no gateway at http://127.0.0.1:9: nobody listens there; start one with `ostler serve`" in nobody.stderr
    assert "Traceback" not in nobody.stderr
    model = script(tmp_path, "--once", "hi", "--model", "nothing")
    assert (model.returncode, model.stdout) == (1, "")


def test_a_script_that_is_interrupted_stops_its_turn(tmp_path: Path) -> None:
    line = chat_line(tmp_path, "--once", "said\n!late")
    with subprocess.Popen(
        line, cwd=tmp_path, env=environment(tmp_path, {}), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "echo: said\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "waiting\n"
        assert process.wait(300) == 130


def test_h04_resume_brings_the_whole_history_back(tmp_path: Path) -> None:
    script(tmp_path, "--lines", stdin="h1\nh2\n/title Old Talk\n")
    by_title = script(tmp_path, "--resume", "Old Talk", "--once", "!recall")
    assert by_title.stdout == "h1\nh2\n"
    assert "Old Talk, with 2 messages of yours" in by_title.stderr
    latest = script(tmp_path, "--resume", "--once", "!recall")
    assert latest.stdout == "h1\nh2\n!recall\n"
    wrong = script(tmp_path, "--resume", "No Such", "--once", "!recall")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert script(tmp_path, "--once", "!recall").stdout == ""


def test_a_running_gateway_is_found_and_used(tmp_path: Path) -> None:
    with command(tmp_path) as gateway:
        assert script(tmp_path, "--once", "hello").stdout == "echo: hello\n"
        assert len(gateway.agents()) == 1
        named = script(tmp_path, "--once", "hello", "--url", gateway.base)
        assert named.stdout == "echo: hello\n"
    # It is gone now, and what it left behind leads nowhere: the terminal brings a gateway along.
    assert script(tmp_path, "--once", "hello").stdout == "echo: hello\n"


def test_a_key_is_brought_along_and_a_missing_one_is_said(tmp_path: Path) -> None:
    key = "k" * 32
    with command(tmp_path, OSTLER_API_KEY=key):
        assert script(tmp_path, "--once", "hello", OSTLER_API_KEY=key).stdout == "echo: hello\n"
        stranger = script(tmp_path, "--once", "hello")
        assert (stranger.returncode, stranger.stdout) == (1, "")
        assert "set OSTLER_API_KEY" in stranger.stderr
        assert "Bearer" not in stranger.stderr
        assert key not in stranger.stderr


def test_d18_every_command_that_is_listed_works_in_the_terminal(tmp_path: Path) -> None:
    names = re.findall(r"^/([a-z]+)", script(tmp_path, "--once", "/help").stdout, re.MULTILINE)
    assert len(names) > 15
    said = script(tmp_path, "--lines", stdin="\n".join(f"/{name}" for name in names))
    assert said.returncode == 0
    assert "There is no command" not in said.stdout


def test_a_second_terminal_uses_the_gateway_of_the_first(tmp_path: Path) -> None:
    with terminal(tmp_path) as tty:
        tty.until(PROMPT)
        tty.say("/title First")
        tty.until("First now")
        second = script(tmp_path, "--lines", stdin="own words\n/sessions\n")
        assert second.returncode == 0, second.stderr
        assert "First" in second.stdout
        assert "this one): own words" in second.stdout


def test_what_is_being_said_to_another_terminal_is_not_cut_off_by_closing_the_first(tmp_path: Path) -> None:
    with terminal(tmp_path) as tty:
        tty.until(PROMPT)
        line = chat_line(tmp_path, "--once", "begun\n!sleep 1\nend")
        with subprocess.Popen(
            line, cwd=tmp_path, env=environment(tmp_path, {}), stdout=subprocess.PIPE, text=True
        ) as other:
            assert other.stdout is not None
            heard = other.stdout.readline()
            tty.press(CTRL_D)
            heard += other.stdout.read()
            assert other.wait(300) == 0
        assert tty.ends() == 0
    assert heard.split() == ["echo:", "begun", "echo:", "end"]


@pytest.mark.parametrize("arguments", [["--model", "demo", "--cwd", "."]])
def test_a17_model_and_directory_are_taken_from_the_command_line(tmp_path: Path, arguments: list[str]) -> None:
    said = script(tmp_path, *arguments, "--once", "/status")
    assert f"Directory: {tmp_path.resolve()}" in said.stdout
    assert "Model: demo/" in said.stdout
