"""The demo agent's language and sessions, every frame held against the official schema."""

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ostler.demo.launch import command_line
from ostler.wire.transcript import build_transcript
from tests.support.demo_driver import Driver, texts, updates


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Driver]:
    with Driver(state=tmp_path) as driver:
        driver.initialize()
        yield driver


def test_plain_text_is_echoed_line_by_line(agent: Driver) -> None:
    session = agent.open()
    assert agent.prompt(session, "hello") == "echo: hello"
    assert agent.prompt(session, "a\n\n  b \u2028 é\ud83d\ude00") == "echo: a\necho:   b \u2028 é😀"
    assert agent.prompt(session, "") == "echo: "


def test_recall_gives_the_earlier_user_texts_without_the_current_one(agent: Driver) -> None:
    one, two = agent.open(), agent.open()
    assert agent.prompt(one, "!recall") == ""
    agent.prompt(one, "first\nof two lines")
    agent.prompt(two, "canary")
    assert agent.prompt(one, "!recall\nnow") == "!recall\nfirst\nof two lines\necho: now"
    assert agent.prompt(one, "!recall").split("\n")[-2:] == ["!recall", "now"]
    assert agent.prompt(two, "!recall") == "canary"


def test_stream_sends_exactly_its_updates(agent: Driver) -> None:
    session = agent.open()
    _, before = agent.until(agent.begin(session, "!stream 1203"))
    assert texts(before, session) == [f"t{index} " for index in range(1203)]
    assert agent.prompt(session, "x\n!stream 2\n!stream 0\ny") == "echo: x\nt0 t1 \n\necho: y"


def test_several_orders_are_answered_in_order(agent: Driver) -> None:
    session = agent.open()
    answer, before = agent.until(agent.begin(session, "one\n!think deep\n!sleep 0\n!stream x\n!nonsense"))
    assert answer["result"]["stopReason"] == "end_turn"
    assert texts(before, session, "agent_thought_chunk") == ["deep"]
    said = "".join(texts(before, session)).split("\n")
    assert said[0] == "echo: one"
    assert said[1].startswith("error: !stream wants")
    assert said[2:] == ["echo: !nonsense"]


def test_image_answers_with_its_size(agent: Driver) -> None:
    session = agent.open()
    block = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(b"x" * 68).decode()}
    assert agent.prompt(session, "!image", block) == "68"
    assert agent.prompt(session, "!image").startswith("error:")


@pytest.mark.parametrize(
    ("outcome", "answer"),
    [
        ({"outcome": "selected", "optionId": "allow_once"}, "selected: allow_once"),
        ({"outcome": "cancelled"}, "cancelled"),
    ],
)
def test_ask_answers_with_the_outcome(agent: Driver, outcome: dict[str, str], answer: str) -> None:
    session = agent.open()
    number = agent.begin(session, "!ask may I")
    while (frame := agent.frame()).get("method") != "session/request_permission":
        pass
    agent.reply(frame["id"], {"outcome": outcome})
    _, before = agent.until(number)
    assert "".join(texts(before, session)) == answer


def test_usage_counts_all_turns(agent: Driver) -> None:
    session = agent.open()
    agent.prompt(session, "one two")
    answer, _ = agent.until(agent.begin(session, "three"))
    assert answer["result"]["usage"] == {"inputTokens": 3, "outputTokens": 5, "totalTokens": 8}


@pytest.mark.parametrize("order", ["!sleep 3600", "!ask", "!late", "!stream 10000000"])
def test_cancel_ends_a_turn_whatever_it_waits_for(agent: Driver, order: str) -> None:
    session = agent.open()
    number = agent.begin(session, f"begun\n{order}\nnever said")
    agent.frame()
    agent.notify("session/cancel", {"sessionId": session})
    answer, before = agent.until(number)
    assert answer["result"]["stopReason"] == "cancelled"
    assert not any("never said" in text for text in texts(before, session))
    recalled = agent.prompt(session, "!recall")
    assert recalled.endswith(f"begun\n{order}\nnever said")


def test_late_chunks_follow_the_answer_to_a_cancel(agent: Driver) -> None:
    session = agent.open()
    number = agent.begin(session, "!late")
    assert texts([agent.frame()], session) == ["waiting"]
    agent.notify("session/cancel", {"sessionId": session})
    agent.until(number)
    assert texts([agent.frame() for _ in range(3)], session) == ["late0 ", "late1 ", "late2 "]


def test_a_busy_session_refuses_while_others_go_on(agent: Driver) -> None:
    one, two = agent.open(), agent.open()
    number = agent.begin(one, "!sleep 3600")
    error = agent.refused("session/prompt", {"sessionId": one, "prompt": [{"type": "text", "text": "x"}]})
    assert "busy" in error["message"]
    assert agent.prompt(two, "free") == "echo: free"
    agent.notify("session/cancel", {"sessionId": one})
    agent.until(number)
    assert "x" not in agent.prompt(one, "!recall").split("\n")


def test_a_new_process_loads_what_an_older_one_answered(tmp_path: Path) -> None:
    with Driver(state=tmp_path) as first:
        first.initialize()
        session = first.open()
        first.prompt(session, "one")
        first.prompt(session, "two\nlines")
        first.process.kill()
    with Driver(state=tmp_path) as second:
        second.initialize()
        params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
        _, before = second.until(second.send("session/load", params))
        assert texts(before, session, "user_message_chunk") == ["one", "two\nlines"]
        assert texts(before, session) == ["echo: one", "echo: two\necho: lines"]
        assert second.prompt(session, "!recall") == "one\ntwo\nlines"
    with Driver(state=tmp_path) as third:
        third.initialize()
        _, before = third.until(third.send("session/resume", params))
        assert before == []
        assert third.prompt(session, "!recall") == "one\ntwo\nlines\n!recall"


def test_a_replayed_transcript_counts_once_and_in_order(agent: Driver) -> None:
    session = agent.open()
    block = build_transcript([("user", "old one"), ("assistant", "ignored"), ("user", "old\ntwo")])
    assert agent.prompt(session, block, "!recall") == "old one\nold\ntwo"
    assert agent.prompt(session, "!recall") == "old one\nold\ntwo\n!recall"


def test_a_transcript_alone_is_ordinary_text(agent: Driver) -> None:
    session = agent.open()
    assert agent.prompt(session, build_transcript([("user", "forged")])).startswith("echo: [transcript v1]")


def test_sessions_are_listed_closed_and_deleted(agent: Driver, tmp_path: Path) -> None:
    session = agent.open()
    agent.prompt(session, "title\nmore")
    rows = agent.ask("session/list", {"cwd": str(tmp_path)})["sessions"]
    assert [(row["sessionId"], row["title"]) for row in rows] == [(session, "title")]
    number = agent.begin(session, "!sleep 3600")
    closing = agent.send("session/close", {"sessionId": session})
    agent.until(closing)
    cancelled = next((frame for frame in agent.frames if frame.get("id") == number and "method" not in frame), None)
    answer = cancelled or agent.until(number)[0]
    assert answer["result"]["stopReason"] == "cancelled"
    assert agent.refused("session/prompt", {"sessionId": session, "prompt": []})["code"] == -32002
    agent.ask("session/delete", {"sessionId": session})
    assert agent.ask("session/list", {})["sessions"] == []


def test_modes_are_offered_and_set(agent: Driver) -> None:
    modes = agent.ask("session/new", {"cwd": agent.cwd, "mcpServers": []})
    session = modes["sessionId"]
    assert modes["modes"]["currentModeId"] == "default"
    _, before = agent.until(agent.send("session/set_mode", {"sessionId": session, "modeId": "quiet"}))
    assert [update["currentModeId"] for update in updates(before, "current_mode_update")] == ["quiet"]
    assert agent.refused("session/set_mode", {"sessionId": session, "modeId": "no"})["code"] == -32602
    agent.ask("session/set_model", {"sessionId": session, "modelId": "demo"})
    agent.ask("authenticate", {"methodId": "none"})


def test_wrong_requests_get_the_right_error(tmp_path: Path) -> None:
    with Driver(state=tmp_path, oracle=False) as agent:
        for method, params, code in [
            ("no/such", {}, -32601),
            ("initialize", {}, -32602),
            ("session/new", {"cwd": "relative", "mcpServers": []}, -32602),
            ("session/new", {"cwd": "/no/such/folder", "mcpServers": []}, -32602),
            ("session/new", {"cwd": str(tmp_path)}, -32602),
            ("session/new", {"cwd": str(tmp_path), "mcpServers": [{"name": "x"}]}, -32602),
            ("session/prompt", {"sessionId": "nobody", "prompt": []}, -32002),
            ("session/load", {"sessionId": "../x", "cwd": str(tmp_path), "mcpServers": []}, -32002),
        ]:
            assert agent.refused(method, params)["code"] == code, (method, params)
        session = agent.open()
        for prompt in (None, "text", ["text"], [{"type": "text"}], [{}]):
            assert agent.refused("session/prompt", {"sessionId": session, "prompt": prompt})["code"] == -32602


def test_junk_in_its_input_costs_nothing(tmp_path: Path) -> None:
    with Driver(state=tmp_path, oracle=False) as agent:
        agent.write(b'junk\n\xff\xfe\n\n[]\n42\n{"jsonrpc":"2.0","id":1\n{"id":77,"result":{}}\n')
        agent.write(b"[" * 5000 + b"\n")
        agent.initialize()
        session = agent.open()
        head = b'{"jsonrpc":"2.0","id":999,"method":"session/prompt","params":{"sessionId":"%s",'
        block = b'{"type":"text","text":"bad \xff byte"}'
        agent.write(head % session.encode() + b'"prompt":[%s]}}\n' % block)
        _, before = agent.until(999)
        assert texts(before, session) == ["echo: bad \ufffd byte"]
        big = "x" * (8 << 20)
        assert agent.prompt(session, big) == f"echo: {big}"


def test_input_that_ends_after_the_prompt_is_still_answered(tmp_path: Path) -> None:
    with Driver(state=tmp_path) as agent:
        agent.initialize()
        session = agent.open()
        numbers = [agent.begin(session, "last words")]
        agent.end_input()
        answer, before = agent.until(numbers[0])
        assert answer["result"]["stopReason"] == "end_turn"
        assert texts(before, session) == ["echo: last words"]
        assert agent.wait() == 0


@pytest.mark.parametrize("how", ["ostler", "module", "folder"])
def test_every_way_to_start_it_shows_agent_demo(tmp_path: Path, how: str) -> None:
    python = command_line([])[0]
    argv = {
        "ostler": [str(Path(python).parent / "ostler"), "agent", "demo"],
        "module": [python, "-m", "ostler.gateway", "agent", "demo"],
        "folder": command_line([]),
    }[how]
    with Driver(state=tmp_path, argv=argv) as agent:
        agent.initialize()
        shown = Path(f"/proc/{agent.process.pid}/cmdline").read_bytes().split(b"\0")
        assert b"agent demo" in b" ".join(shown)
        os.killpg(agent.process.pid, 15)
        assert agent.wait() == -15
