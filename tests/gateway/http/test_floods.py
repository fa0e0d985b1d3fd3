"""Far too much of something over HTTP, or from an agent: it is refused or ended with a reason, and the others go on."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from ostler.bridge.upstreams.process import LEASH
from ostler.gateway.http.protocol import HEADERS_AT_MOST, PORTION
from ostler.gateway.model.outcome import StopCause, TurnOutcome, TurnStatus, outcome_of
from ostler.gateway.server.listener import listen_tcp
from ostler.gateway.server.serving import Server
from ostler.gateway.turns.activities import OPEN_KEPT, SHOWN
from ostler.gateway.turns.answer import AnswerStream
from ostler.pool.events import Finished, StopReason, ToolStarted
from tests.support.openai_oracle import judge_response
from tests.support.serve_command import command
from tests.support.served import Served, serving
from tests.support.waiting import soon

HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
OK = b"HTTP/1.1 200 OK"
MESSAGE = {"role": "user", "content": "x"}
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def posted(served: Served, path: str, content: bytes) -> tuple[int, dict[str, Any]]:
    answer = await served.http.post(path, content=content, headers={"content-type": "application/json"})
    return answer.status_code, answer.json()["error"]


async def test_n30_a_body_of_tiny_values_is_refused_unread(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", gateway__body_values=1000) as served:
        for flood in (b"{}," * 2000 + b"0", b"0," * 2000 + b"0", b"[" * 2000):
            status, error = await posted(served, "/v1/responses", b'{"model":"demo","input":[' + flood + b"]}")
            assert (status, error["code"]) == (413, "too_many_values")
            assert "1000 JSON values" in error["message"]
        assert await served.say("a, [b], {c}" * 2000) == "echo: " + "a, [b], {c}" * 2000


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/responses", {"input": [MESSAGE] * 5}, "input"),
        ("/v1/responses", {"input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}] * 4}]}, "input"),
        ("/v1/responses", {"input": "x", "conversation_history": [MESSAGE] * 5}, "conversation_history"),
        ("/v1/chat/completions", {"messages": [MESSAGE] * 5}, "messages"),
    ],
)
async def test_n30_more_items_and_parts_than_may_be_are_refused(
    tmp_path: Path, path: str, body: dict[str, Any], param: str
) -> None:
    async with serving(tmp_path / "data", gateway__items_max=4) as served:
        status, error = await posted(served, path, orjson.dumps({"model": "demo", **body}))
        assert (status, error["code"], error["param"]) == (400, "array_above_max_length", param)
        assert "gateway.items_max" in error["message"]
        assert (await served.ask([MESSAGE] * 4)).status_code == 200


async def test_n31_an_answer_of_too_many_items_is_ended_and_says_why(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", gateway__answer_items=5) as served:
        told = "\n".join(["!think hm", "word"] * 10)
        ended = (await served.ask(told, conversation="x")).json()
        judge_response(ended)
        assert ended["status"] == "incomplete"
        assert ended["incomplete_details"]["cause"] == "max_output_items"
        assert len(ended["output"]) <= 6
        assert await served.say("again", conversation="x") == "echo: again"


@pytest.mark.parametrize("stop", [StopCause.SIZE, StopCause.ITEMS])
def test_n31_what_was_stopped_for_its_size_is_incomplete_whatever_its_agent_says(stop: StopCause) -> None:
    for reason in (StopReason.DONE, StopReason.CANCELLED, StopReason.FAILED):
        outcome = outcome_of(Finished(reason), stop)
        assert (outcome.status, outcome.reason) == (TurnStatus.INCOMPLETE, stop.value)


def test_n31_tools_that_an_agent_never_ends_are_told_as_they_are_and_not_kept() -> None:
    output = AnswerStream("a_1")
    for number in range(OPEN_KEPT + 3):
        output.take(ToolStarted(str(number), f"tool {number}", arguments={"text": "y" * 100_000}))
    told = [item["activity"] for item in output.items]
    assert [each["title"] for each in told] == ["tool 0", "tool 1", "tool 2"]
    assert all(len(each["arguments"]) <= SHOWN + 3 for each in told)
    output.close(TurnOutcome(TurnStatus.COMPLETED), [], 0.0)
    assert len(output.items) == OPEN_KEPT + 3


class Crowd:
    """The connections of one test to one listener."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._writers: list[asyncio.StreamWriter] = []

    async def one_more(self) -> Ends:
        reader, writer = await asyncio.open_connection(*self._address)
        self._writers.append(writer)
        return reader, writer

    async def leave(self) -> None:
        for writer in self._writers:
            writer.close()
        for writer in self._writers:
            with suppress(ConnectionError):
                await writer.wait_closed()


@asynccontextmanager
async def listening(served: Served, connections: int) -> AsyncIterator[Crowd]:
    """A listener with room for so many."""
    listener = listen_tcp("127.0.0.1", 0, patience=10)
    server = Server.of(served.gateway.app, connections=connections)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    crowd = Crowd(listener.getsockname())
    try:
        yield crowd
    finally:
        await crowd.leave()
        server.should_exit = True
        await running


async def asked(ends: Ends, sent: bytes = HEALTH) -> bytes:
    ends[1].write(sent)
    head = await soon(ends[0].readuntil(b"\r\n\r\n"), "an answer")
    await soon(ends[0].readuntil(b"}"), "its body")
    return head.partition(b"\r\n")[0]


async def test_n32_idle_connections_make_room_the_oldest_first(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, listening(served, 4) as crowd:
        idle = [await crowd.one_more() for _ in range(4)]
        assert [await asked(each) for each in idle] == [OK] * 4
        assert await asked(await crowd.one_more()) == OK
        assert await soon(idle[0][0].read(), "the end of the one that was idle longest") == b""
        assert await asked(idle[1]) == OK
        assert await asked(await crowd.one_more()) == OK
        assert await soon(idle[2][0].read(), "the end of the next one") == b""
        assert await asked(idle[1]) == OK, "it was used in between"


async def test_n32_a_thousand_connections_that_say_nothing_lock_nobody_out(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, listening(served, 8) as crowd:
        for _ in range(200):
            await crowd.one_more()
        assert await asked(await crowd.one_more()) == OK


async def test_n32_where_all_are_being_answered_the_new_one_is_told_so(tmp_path: Path) -> None:
    body = orjson.dumps({"model": "demo", "input": "begun\n!sleep 60", "stream": True})
    head = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"
    async with serving(tmp_path / "data") as served, listening(served, 2) as crowd:
        for _ in range(2):
            reader, writer = await crowd.one_more()
            writer.write(head % len(body) + body)
            await soon(reader.readuntil(b"output_text.delta"), "the answer to begin")
        refused, _ = await crowd.one_more()
        said = await soon(refused.read(), "the refusal")
        assert said.startswith(b"HTTP/1.1 503 ")
        head, _, text = said.partition(b"\r\n\r\n")
        assert b"retry-after: 1" in head
        assert orjson.loads(text)["error"]["code"] == "too_many_connections"


async def test_n32_a_request_that_waits_behind_a_running_answer_does_not_give_it_up(tmp_path: Path) -> None:
    body = orjson.dumps({"model": "demo", "input": "begun\n!sleep 60", "stream": True})
    head = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body)
    async with serving(tmp_path / "data") as served, listening(served, 2) as crowd:
        busy, idle = await crowd.one_more(), await crowd.one_more()
        busy[1].write(head + body)
        await soon(busy[0].readuntil(b"output_text.delta"), "the answer to begin")
        assert await asked(idle) == OK
        busy[1].write(head + body[:10])
        assert await asked(idle) == OK
        assert await asked(await crowd.one_more()) == OK
        assert await soon(idle[0].read(), "the end of the idle one") == b""
        refused = await crowd.one_more()
        assert await asked(refused) == OK, "the one before it was idle again"
        assert not busy[0].at_eof()


async def test_n30_more_headers_than_may_be_are_refused(tmp_path: Path) -> None:
    flood = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n" + b"a:\r\n" * HEADERS_AT_MOST + b"\r\n"
    async with serving(tmp_path / "data") as served, listening(served, 8) as crowd:
        reader, writer = await crowd.one_more()
        writer.write(flood)
        said = await soon(reader.read(), "the refusal")
        assert said.startswith(b"HTTP/1.1 431 ")
        assert b"128 headers" in said


async def test_n30_a_body_in_tiny_chunks_comes_whole_and_others_are_answered_meanwhile(tmp_path: Path) -> None:
    body = orjson.dumps({"model": "demo", "input": "x" * PORTION})
    head = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    chunks = b"".join(b"1\r\n%b\r\n" % body[at : at + 1] for at in range(len(body))) + b"0\r\n\r\n"
    async with serving(tmp_path / "data") as served, listening(served, 8) as crowd:
        one, other = await crowd.one_more(), await crowd.one_more()
        one[1].write(head + chunks)
        assert await asked(other) == OK
        assert b"echo: " + b"x" * PORTION in await soon(one[0].read(), "the answer")


def test_n32_the_gateway_takes_the_files_it_may_have_and_its_agents_start_with_as_many_as_it_did(
    tmp_path: Path,
) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = 300
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, before[1]))
    try:
        with command(tmp_path, whole=True) as running:
            with running.http() as http:
                assert http.post("/v1/responses", json={"model": "demo", "input": "hello"}).status_code == 200
            assert psutil.Process(running.process.pid).rlimit(psutil.RLIMIT_NOFILE) == (before[1], before[1])
            agents = running.agents()
            assert agents
            assert {agent.rlimit(psutil.RLIMIT_NOFILE) for agent in agents} == {(few, before[1])}
            assert running.end() == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_n32_a_tool_server_of_a_gateway_with_thousands_of_files_runs_and_is_ended() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    high = 1500
    if hard <= high:
        pytest.skip(f"needs descriptor {high}, and the hard limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, high + 1), hard))
    theirs, ours = os.pipe()
    try:
        os.dup2(theirs, high)
        line = [sys.executable, "-I", "-S", "-E", str(LEASH), str(high), "cat"]
        with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(high,)) as leash:
            assert leash.stdin is not None
            assert leash.stdout is not None
            leash.stdin.write(b"alive\n")
            leash.stdin.flush()
            assert leash.stdout.readline() == b"alive\n"
            os.close(high)
            os.close(ours)
            assert leash.wait(20) == 256 - signal.SIGTERM
    finally:
        os.close(theirs)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
