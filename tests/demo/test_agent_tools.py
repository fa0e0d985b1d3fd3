"""The demo agent as a client of MCP servers: one per session, each with its own environment."""

import json
import os
import sys
from pathlib import Path

import psutil

from tests.support.demo_driver import PATIENCE, Driver, texts, updates

PEER = str(Path(__file__).parents[1] / "support" / "mcp_peer.py")
OFFICIAL = """
from mcp.server import MCPServer
server = MCPServer("official")
@server.tool()
def shout(words: str) -> str:
    return words.upper()
server.run()
"""


def peer(**env: str) -> dict[str, object]:
    rows = [{"name": name, "value": value} for name, value in env.items()]
    return {"name": "peer", "command": sys.executable, "args": ["-I", "-S", PEER], "env": rows}


def children(agent: Driver) -> list[psutil.Process]:
    return psutil.Process(agent.process.pid).children(recursive=True)


def test_tools_are_listed_over_all_pages_and_called(tmp_path: Path) -> None:
    with Driver(state=tmp_path) as agent:
        agent.initialize()
        session = agent.open(peer())
        assert agent.prompt(session, "!tools") == "add\nboom\ngrow\ntoken\nwait"
        answer, before = agent.until(agent.begin(session, '!call add {"a": 2, "b": 3}\n!call boom\n!call nope {}'))
        assert answer["result"]["stopReason"] == "end_turn"
        assert "".join(texts(before, session)) == "5\nerror: it went wrong\nerror: unknown tool 'nope'"
        assert [call["rawInput"] for call in updates(before, "tool_call")] == [{"a": 2, "b": 3}, {}, {}]
        assert [call["status"] for call in updates(before, "tool_call_update")] == [
            "completed",
            "failed",
            "failed",
        ]


def test_each_session_has_its_own_server(tmp_path: Path) -> None:
    with Driver(state=tmp_path) as agent:
        agent.initialize()
        one, two, none = agent.open(peer(TOKEN="one")), agent.open(peer(TOKEN="two")), agent.open()
        assert agent.prompt(one, "!call token {}") == "one"
        assert agent.prompt(two, "!call token {}") == "two"
        assert agent.prompt(none, "!tools") == ""


def test_shared_tools_answer_with_the_first_token(tmp_path: Path) -> None:
    with Driver("--share-tools", state=tmp_path) as agent:
        agent.initialize()
        one, two, none = agent.open(peer(TOKEN="one")), agent.open(peer(TOKEN="two")), agent.open()
        assert {agent.prompt(session, "!call token {}") for session in (one, two, none)} == {"one"}


def test_list_changed_is_followed_unless_told_not_to(tmp_path: Path) -> None:
    for flags, grown in [((), True), (("--no-list-changed",), False)]:
        with Driver(*flags, state=tmp_path) as agent:
            agent.initialize()
            session = agent.open(peer())
            assert agent.prompt(session, "!call grow {}") == "grown"
            assert ("extra" in agent.prompt(session, "!tools").split("\n")) is grown


def test_a_cancelled_call_is_cancelled_at_the_server(tmp_path: Path) -> None:
    log = tmp_path / "log"
    os.mkfifo(log)
    with Driver(state=tmp_path) as agent:
        agent.initialize()
        number = agent.send("session/new", {"cwd": str(tmp_path), "mcpServers": [peer(LOG=str(log))]})
        with log.open(encoding="utf-8") as seen:
            session = agent.until(number)[0]["result"]["sessionId"]
            turn = agent.begin(session, "!call wait {}")
            called = wait_for(seen, "tools/call")
            agent.notify("session/cancel", {"sessionId": session})
            assert agent.until(turn)[0]["result"]["stopReason"] == "cancelled"
            assert wait_for(seen, "notifications/cancelled")["params"]["requestId"] == called["id"]
        assert agent.prompt(session, "!recall") == "!call wait {}"


def test_the_ping_of_a_server_is_answered(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Driver(state=tmp_path) as agent:
        agent.initialize()
        session = agent.open(peer(LOG=str(log)))
        agent.prompt(session, "!tools")
    sent = [json.loads(line) for line in log.read_text().splitlines()]
    assert {"jsonrpc": "2.0", "id": "peer-ping", "result": {}} in sent
    assert [frame["method"] for frame in sent if "method" in frame][:3] == [
        "initialize",
        "notifications/initialized",
        "tools/list",
    ]


def test_a_call_that_takes_too_long_is_an_error(tmp_path: Path) -> None:
    with Driver("--call-timeout", "0.2", state=tmp_path) as agent:
        agent.initialize()
        assert agent.prompt(agent.open(peer()), "!call wait {}\nafter").split("\n") == [
            "error: tool 'wait' gave no result within 0.2 s",
            "echo: after",
        ]


def test_a_server_that_does_not_start_costs_the_tools_not_the_session(tmp_path: Path) -> None:
    with Driver(state=tmp_path) as agent:
        agent.initialize()
        missing = {"name": "missing", "command": "/no/such/command", "args": [], "env": []}
        ending = {"name": "ending", "command": "/bin/true", "args": [], "env": []}
        assert agent.prompt(agent.open(missing, ending, peer()), '!call add {"a":1,"b":1}') == "2"


def test_a_server_that_dies_makes_its_calls_errors(tmp_path: Path) -> None:
    with Driver(state=tmp_path) as agent:
        agent.initialize()
        session = agent.open(peer())
        agent.prompt(session, "!tools")
        server = children(agent)[0]
        number = agent.begin(session, "!call wait {}")
        agent.frame()
        server.kill()
        _, before = agent.until(number)
        assert "".join(texts(before, session)) == "error: tool server 'peer' has ended"


def test_close_and_the_end_of_stdin_leave_no_server(tmp_path: Path) -> None:
    with Driver(state=tmp_path) as agent:
        agent.initialize()
        one, _two = agent.open(peer()), agent.open(peer())
        first, second = children(agent)
        agent.ask("session/close", {"sessionId": one})
        assert [child.pid for child in children(agent)] in ([first.pid], [second.pid])
        agent.end_input()
        assert agent.wait() == 0
        assert psutil.wait_procs([first, second], PATIENCE)[1] == []


def test_the_agents_own_environment_stays_its_own(tmp_path: Path) -> None:
    dump = {"name": "dump", "command": "/bin/sh", "args": ["-c", "env >seen; sleep 0"], "env": []}
    with Driver(state=tmp_path) as agent:
        agent.initialize()
        agent.open(dump)
    names = {line.partition("=")[0] for line in (tmp_path / "seen").read_text().splitlines()}
    assert names <= {"HOME", "LANG", "PATH", "TERM", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_"}


def test_the_official_mcp_library_is_a_peer(tmp_path: Path) -> None:
    script = tmp_path / "official.py"
    script.write_text(OFFICIAL)
    with Driver(state=tmp_path) as agent:
        agent.initialize()
        session = agent.open({"name": "official", "command": sys.executable, "args": [str(script)], "env": []})
        assert agent.prompt(session, '!tools\n!call shout {"words": "hey"}') == "shout\nHEY"


def wait_for(seen, method: str) -> dict:
    for line in seen:
        frame = json.loads(line)
        if frame.get("method") == method:
            return dict(frame)
    raise AssertionError(f"the server ended without {method}")


def test_input_that_ends_during_a_handshake_ends_the_server_too(tmp_path: Path) -> None:
    script = "echo $$ >pid; exec sleep 3600"
    silent = {"name": "silent", "command": "/bin/sh", "args": ["-c", script], "env": []}
    os.mkfifo(tmp_path / "pid")
    with Driver(state=tmp_path) as agent:
        agent.initialize()
        agent.send("session/new", {"cwd": str(tmp_path), "mcpServers": [silent]})
        server = psutil.Process(int((tmp_path / "pid").read_text()))
        agent.end_input()
        assert agent.wait() == 0
        assert psutil.wait_procs([server], PATIENCE)[1] == []


def test_a_server_that_ignores_everything_polite_is_killed(tmp_path: Path) -> None:
    stubborn = tmp_path / "stubborn.py"
    stubborn.write_text(f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{STUBBORN}")
    entry = {"name": "stubborn", "command": sys.executable, "args": ["-I", str(stubborn), PEER], "env": []}
    with Driver(state=tmp_path) as agent:
        agent.initialize()
        session = agent.open(entry)
        assert agent.prompt(session, '!call add {"a":1,"b":1}') == "2"
        [server] = children(agent)
        closing = agent.send("session/close", {"sessionId": session})
        agent.end_input()
        agent.until(closing)
        assert agent.wait() == 0
        assert psutil.wait_procs([server], PATIENCE)[1] == []


STUBBORN = """
import runpy, sys
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
signal.pause()
"""
