"""The bridge over its real socket, with real relays: ACCEPTANCE F, B23, B24."""

import asyncio
import gc
import itertools
import json
import logging
import os
import socket
import stat
import weakref
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.context import NoSessionContext, session_context
from ostler.bridge.errors import BindingRevoked, BridgeNotRunning, SocketInUse, SocketRefused
from ostler.bridge.server import Bridge
from ostler.bridge.session_binding import Loss
from ostler.bridge.settings import BridgeSettings
from ostler.bridge.socket_path import LONGEST
from ostler.bridge.tokens import digest, secret_token, well_formed
from tests.support.relays import Echo, Held, connection, hello, open_connection, relay, running_bridge, tool
from tests.support.waiting import soon

ECHO = [tool("echo", "says who it is", text={"type": "string"})]
CHANGED = "notifications/tools/list_changed"


@pytest.fixture
async def bridge(tmp_path: Path) -> AsyncIterator[Bridge]:
    async with running_bridge(tmp_path) as running:
        yield running


def outcome(reply: dict[str, Any]) -> str:
    """What a reply says, in one word or text."""
    if "error" in reply:
        return str(reply["error"]["code"])
    return str(reply["result"]["content"][0]["text"])


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def modes(path: Path) -> tuple[int, int]:
    """Of a socket and its directory, which are both ours."""
    assert path.stat().st_uid == path.parent.stat().st_uid == os.geteuid()
    return stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)


def left(path: Path) -> bool:
    return os.path.lexists(path)


def leave_dead_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


def test_f01_tokens_have_their_form_and_never_repeat() -> None:
    tokens = {secret_token() for _ in range(10_000)}
    assert len(tokens) == 10_000
    assert all(map(well_formed, tokens))


async def test_f02_the_token_is_in_the_environment_and_nowhere_else(
    bridge: Bridge, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    binding = bridge.open(ECHO)
    assert binding.relay.env["OSTLER_ACP_SESSION_BINDING"] == binding.token
    assert "relay" in binding.relay.argv
    async with relay(binding) as client:
        await client.initialize()
        assert await client.names() == ["echo"]
        seen = command_line(client.process.pid)
    async with connection(bridge.socket_path, "0" * 32) as foreign:
        assert outcome(await foreign.call("echo")) == "-32010"
    assert binding.token not in seen + caplog.text + repr(binding)


async def test_f03_before_the_first_publish_there_is_nothing_and_after_it_a_notice(bridge: Bridge) -> None:
    binding = bridge.open()
    async with relay(binding) as client:
        ready = await client.initialize()
        assert ready["result"]["capabilities"]["tools"]["listChanged"] is True
        assert await client.names() == []
        assert outcome(await client.call("echo")) == "-32011"
        await binding.attached()
        bridge.publish(binding, ECHO, Echo("A"))
        await client.notice(CHANGED)
        assert await client.names() == ["echo"]
        assert await client.text("echo") == "A:None:"


async def test_f04_each_lists_its_own_tools(bridge: Bridge) -> None:
    a, b = bridge.open([tool("same", "A's")]), bridge.open([tool("same", "B's"), tool("more")])
    async with relay(a) as at_a, relay(b) as at_b:
        await at_a.initialize()
        await at_b.initialize()
        assert [entry["description"] for entry in await at_a.tools()] == ["A's"]
        assert [entry["description"] for entry in await at_b.tools()] == ["B's", ""]


async def test_f05_five_hundred_interleaved_calls_each_stay_home(bridge: Bridge) -> None:
    clients = {}
    for mark in "AB":
        binding = bridge.open(ECHO)
        bridge.publish(binding, ECHO, Echo(mark), f"session-{mark}")
        clients[mark] = binding
    async with relay(clients["A"]) as at_a, relay(clients["B"]) as at_b:
        for batch in range(0, 500, 50):
            wanted = [
                (f"{mark}:session-{mark}:{n}", client.call("echo", {"text": str(n)}))
                for n in range(batch, batch + 50)
                for mark, client in (("A", at_a), ("B", at_b))
            ]
            assert [outcome(await reply) for _, reply in wanted] == [text for text, _ in wanted]


async def test_f06_a_call_of_b_ends_in_b_though_a_publishes_again(bridge: Bridge) -> None:
    a, b = bridge.open(), bridge.open()
    held = Held("B")
    bridge.publish(a, ECHO, Echo("A"))
    bridge.publish(b, ECHO, held, "sb")
    async with relay(a), relay(b) as at_b:
        reply = at_b.call("echo")
        await held.begun.acquire()
        bridge.publish(a, [tool("other")], Echo("A2"))
        held.release.set()
        assert outcome(await reply) == "B:sb"
        assert at_b.notices == []


async def test_f07_a_running_call_ends_where_it_began(bridge: Bridge) -> None:
    a = bridge.open()
    held = Held("old")
    bridge.publish(a, ECHO, held, "one")
    async with relay(a) as client:
        reply = client.call("echo")
        await held.begun.acquire()
        bridge.publish(a, ECHO, Echo("new"), "two")
        assert await client.text("echo") == "new:two:"
        held.release.set()
        assert outcome(await reply) == "old:one"


async def test_f08_after_revocation_nothing_is_dispatched_and_b_works(bridge: Bridge) -> None:
    a, b = bridge.open(ECHO), bridge.open(ECHO)
    at_work, echo = Held("A"), Echo("B")
    bridge.publish(a, ECHO, at_work)
    bridge.publish(b, ECHO, echo)
    async with relay(a) as at_a, relay(b) as at_b:
        running = at_a.call("echo")
        await at_work.begun.acquire()
        a.revoke()
        assert outcome(await running) == "-32012"
        assert outcome(await at_a.call("echo")) == "-32010"
        assert (await at_a.ask("tools/list"))["error"]["code"] == -32010
        assert len(at_work.seen) == 1
        assert await at_b.text("echo") == "B:None:"


async def test_w07d_a_guess_is_compared_only_as_a_digest_that_nobody_outside_can_predict(tmp_path: Path) -> None:
    kept: list[set[bytes]] = []
    for name in ("one", "two"):
        bridge = Bridge(BridgeSettings(data_directory=tmp_path / name), tokens=lambda: "a" * 32)
        await bridge.start()
        bridge.open(ECHO)
        kept.append(set(bridge._table._places))
        assert kept[-1] == {digest(bridge._key, b"a" * 32)}
        await bridge.stop()
    assert kept[0] != kept[1]


async def test_f09_w07d_every_bad_token_gets_the_same_bytes(bridge: Bridge) -> None:
    revoked = bridge.open(ECHO)
    revoked.revoke()
    owned = bridge.open(ECHO)
    owned.owned_by(_Identity(1 << 22, 1))
    taken = bridge.open(ECHO)
    later = bridge.open(ECHO)
    pid = str(os.getpid())
    hellos = {
        "none": f"OSTLER/1 {pid}\n",
        "empty": f"OSTLER/1 {pid} \n",
        "unknown": f"OSTLER/1 {pid} {'a' * 32}\n",
        "upper case": f"OSTLER/1 {pid} {owned.token.upper()}\n",
        "truncated": f"OSTLER/1 {pid} {owned.token[:-1]}\n",
        "padded": f"OSTLER/1 {pid} {owned.token}0\n",
        "revoked": f"OSTLER/1 {pid} {revoked.token}\n",
        "foreign": f"OSTLER/1 {pid} {owned.token}\n",
        "second": f"OSTLER/1 {pid} {taken.token}\n",
        "old version": f"OSTLER/0 {pid} {owned.token}\n",
        "no version": f"{owned.token}\n",
        "not text": "OSTLER/1 1 \udcff\udcfe\n",
        "revoked while connected": hello(later.token).decode(),
    }
    replies = {}
    async with relay(taken) as holder:
        await holder.initialize()
        for kind, said in hellos.items():
            client = await open_connection(bridge.socket_path, said.encode("utf-8", "surrogateescape"))
            if kind == "revoked while connected":
                await client.ask("ping")
                later.revoke()
            asked = [
                await client.ask(method, params, ident=7)
                for method, params in (
                    ("initialize", {"protocolVersion": "2025-06-18"}),
                    ("tools/list", {}),
                    ("tools/call", {"name": "echo", "arguments": {}}),
                    ("nonsense", {}),
                )
            ]
            replies[kind] = json.dumps(asked)
            await client.close()
        assert (await holder.ask("tools/list"))["error"]["code"] == -32010, "nobody can tell which of two is the thief"
    assert set(replies.values()) == {
        json.dumps(
            [
                {
                    "jsonrpc": "2.0",
                    "id": 7,
                    "error": {"code": -32010, "message": "this tool connection is not bound to a session"},
                }
            ]
            * 4
        )
    }


async def test_n16_a_relay_that_was_killed_is_missed_long_before_its_grace_is_over(bridge: Bridge) -> None:
    binding, gone = bridge.open(ECHO), asyncio.Event()
    held = Held("A")
    bridge.publish(binding, ECHO, held)
    binding.on_gone(gone.set)
    async with relay(binding) as client:
        client.call("echo")
        await held.begun.acquire()
        client.process.kill()
        await soon(gone.wait(), "the loss of the relay", bridge.settings.reconnect_grace / 2)
    assert (binding.lost, held.cancelled) == (Loss.ENDED, 1)
    assert not bridge.stats.calls_running


async def test_f10_nothing_in_a_call_and_no_second_hello_moves_a_connection(bridge: Bridge) -> None:
    a, b = bridge.open(), bridge.open()
    only_b = Echo("B")
    bridge.publish(a, ECHO, Echo("A"), "sa")
    bridge.publish(b, [*ECHO, tool("secret")], only_b, "sb")
    async with relay(a) as client:
        meta = {"token": b.token, "OSTLER_ACP_SESSION_BINDING": b.token, "sessionId": "sb"}
        reply = await client.call("echo", {"token": b.token, "text": "x"}, _meta=meta, binding=b.token)
        assert outcome(reply) == "A:sa:x"
        assert outcome(await client.call("secret")) == "-32602"
        refused = client.expect(None)
        client.raw(hello(b.token))
        assert (await refused)["error"]["code"] == -32700
        assert await client.names() == ["echo"]
    assert only_b.seen == []


async def test_w02_the_agents_own_word_about_its_session_is_a_second_witness(bridge: Bridge) -> None:
    binding = bridge.open()
    echo = Echo("A")
    bridge.publish(binding, ECHO, echo)
    binding.witnessed_by("thread-1")
    async with relay(binding) as client:
        assert outcome(await client.call("echo", _meta={"threadId": "thread-2"})) == "-32010"
        assert outcome(await client.call("echo", _meta={"sessionId": "thread-2"})) == "-32010"
        assert echo.seen == []
        for meta in ({"threadId": "thread-1"}, {"sessionId": "thread-1"}, {}):
            assert outcome(await client.call("echo", _meta=meta)) == "A:None:"


async def test_f11_after_release_dispatcher_and_session_are_gone(bridge: Bridge) -> None:
    class Session:
        pass

    binding = bridge.open(ECHO)
    session, echo = Session(), Held("A")
    gone = [weakref.ref(session), weakref.ref(echo)]
    bridge.publish(binding, ECHO, echo, session)
    async with relay(binding) as client:
        running = client.call("echo")
        await echo.begun.acquire()
        binding.revoke()
        assert outcome(await running) == "-32012"
        await client.call("echo")
        del session, echo
        gc.collect()
        assert [reference() for reference in gone] == [None, None]


async def test_f12_a_stopped_bridge_keeps_nothing_and_starts_cold(tmp_path: Path) -> None:
    bridge = Bridge(BridgeSettings(data_directory=tmp_path))
    await bridge.start()
    binding = bridge.open(ECHO)
    held = Held("A")
    bridge.publish(binding, ECHO, held)
    client = await open_connection(bridge.socket_path, hello(binding.token))
    running = client.call("echo")
    await held.begun.acquire()
    await bridge.stop()
    assert outcome(await running) == "-32012"
    await client.closed.wait()
    await client.close()
    assert held.cancelled == 1
    with pytest.raises(BridgeNotRunning):
        bridge.open()
    await bridge.start()
    async with connection(bridge.socket_path, binding.token) as again:
        assert outcome(await again.call("echo")) == "-32010"
    with pytest.raises(BindingRevoked):
        bridge.publish(binding, ECHO, Echo("A"))
    fresh = bridge.open(ECHO)
    async with connection(bridge.socket_path, fresh.token) as other:
        assert outcome(await other.call("echo")) == "-32011"
    await bridge.stop()
    await bridge.stop()
    assert list((tmp_path / "bridge").glob("*.sock")) == []


async def test_f13_w10_the_socket_is_ours_alone(tmp_path: Path) -> None:
    async with running_bridge(tmp_path) as bridge:
        assert modes(Path(bridge.socket_path)) == (0o600, 0o700)
        with pytest.raises(SocketInUse):
            await Bridge(BridgeSettings(data_directory=tmp_path)).start()


async def test_f13_a_long_data_path_still_gives_a_legal_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    runtime = tmp_path / "run"
    runtime.mkdir()
    for settings in ({}, {"runtime_directory": runtime}):
        async with running_bridge(deep, **settings) as bridge:
            path = Path(bridge.socket_path)
            assert len(os.fsencode(path)) <= LONGEST
            assert modes(path) == (0o600, 0o700)
            binding = bridge.open(ECHO)
            async with relay(binding) as client:
                assert await client.names() == ["echo"]
        assert not left(path)


async def test_f13_w10_a_dead_socket_is_replaced_and_a_lax_directory_closed(tmp_path: Path) -> None:
    directory = tmp_path / "bridge"
    directory.mkdir(mode=0o755)
    leave_dead_socket(directory / "bridge.sock")
    async with running_bridge(tmp_path) as bridge:
        assert modes(Path(bridge.socket_path)) == (0o600, 0o700)
        binding = bridge.open(ECHO)
        async with connection(bridge.socket_path, binding.token) as client:
            assert await client.names() == ["echo"]


@pytest.mark.parametrize("name", ["bridge.sock", "bridge.lock"])
async def test_w10_what_is_not_ours_to_replace_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "bridge").mkdir()
    (tmp_path / "target").write_text("precious")
    (tmp_path / "bridge" / name).symlink_to(tmp_path / "target")
    with pytest.raises(SocketRefused):
        await Bridge(BridgeSettings(data_directory=tmp_path)).start()
    assert (tmp_path / "target").read_text() == "precious"


async def test_w10_a_live_socket_of_somebody_without_our_lock_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "bridge").mkdir()
    path = tmp_path / "bridge" / "bridge.sock"
    other = await asyncio.start_unix_server(lambda _, writer: writer.close(), path)
    with pytest.raises(SocketInUse):
        await Bridge(BridgeSettings(data_directory=tmp_path)).start()
    assert path.exists()
    other.close()


async def test_f14_framing_does_not_depend_on_how_bytes_arrive(bridge: Bridge) -> None:
    binding = bridge.open(ECHO)
    bridge.publish(binding, ECHO, Echo("A"))
    client = await open_connection(bridge.socket_path, None)
    request = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"bit"}}}\n'
    reply = client.expect(1)
    for number in hello(binding.token) + request:
        client.raw(bytes([number]))
        await client.writer.drain()
        await asyncio.sleep(0)
    assert outcome(await reply) == "A:None:bit"
    big = "x" * 1_000_000
    assert outcome(await client.call("echo", {"text": big})) == f"A:None:{big}"
    both = [client.expect(2), client.expect(3)]
    client.raw(request.replace(b'"id":1', b'"id":2') + request.replace(b'"id":1', b'"id":3'))
    assert [outcome(await each) for each in both] == ["A:None:bit"] * 2
    broken = client.expect(None)
    client.raw(b'{"jsonrpc": oops}\n')
    assert (await broken)["error"]["code"] == -32700
    assert await client.text("echo", {"text": "still here"}) == "A:None:still here"
    await client.close()


async def test_f14_a_megabyte_crosses_the_relay_both_ways(bridge: Bridge) -> None:
    binding = bridge.open(ECHO)
    bridge.publish(binding, ECHO, Echo("A"))
    async with relay(binding) as client:
        big = "é" * 1_500_000
        replies = [client.call("echo", {"text": f"{n}{big}"}) for n in range(3)]
        assert [outcome(await reply) for reply in replies] == [f"A:None:{n}{big}" for n in range(3)]


async def test_f14_a_frame_over_the_limit_is_an_error_for_its_own_connection(tmp_path: Path) -> None:
    async with running_bridge(tmp_path, frame_limit=100_000) as bridge:
        binding = bridge.open(ECHO)
        bridge.publish(binding, ECHO, Echo("A"))
        async with relay(binding) as client:
            refused = client.expect(None)
            client.raw(b'"' + b"x" * 300_000 + b'"\n')
            assert (await refused)["error"]["code"] == -32600
            assert await client.text("echo") == "A:None:"


async def test_f15_what_a_tool_does_wrong_is_an_answer_to_its_caller(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = "sk-proj-abcdefghijklmnop0123456789"

    async def bad(call: ToolCall) -> CallResult:
        if call.name == "slow":
            await asyncio.Event().wait()
        if call.name == "exit":
            raise SystemExit(3)
        if call.name == "cancelled":
            raise asyncio.CancelledError
        if call.name == "nothing":
            return None  # type: ignore[return-value] - a tool that breaks its promise
        if call.name == "nonsense":
            return CallResult(({"type": "text", "text": {1, 2}},))
        raise RuntimeError(f"401 with {key}, api_key={key[3:]}, Bearer {call.arguments['token']}")

    async with running_bridge(tmp_path, call_deadline=0.05) as bridge:
        binding = bridge.open()
        names = ["raise", "slow", "nonsense", "exit", "cancelled", "nothing"]
        bridge.publish(binding, [tool(name) for name in names], bad)
        async with relay(binding) as client:
            raised = await client.call("raise", {"token": binding.token})
            assert raised["result"]["isError"] is True
            assert "RuntimeError" in outcome(raised)
            for secret in (key, key[3:], binding.token):
                assert secret not in json.dumps(raised) + caplog.text
            assert "did not finish" in outcome(await client.call("slow"))
            assert (await client.call("nonsense"))["error"]["code"] == -32603
            for name in ("exit", "cancelled", "nothing"):
                assert "failed" in outcome(await client.call(name))
            assert await client.names() == names


async def test_f16_a_slow_call_of_a_delays_nobody(bridge: Bridge) -> None:
    a, b = bridge.open(), bridge.open()
    held = Held("A")
    bridge.publish(a, ECHO, held)
    bridge.publish(b, ECHO, Echo("B"))
    async with relay(a) as at_a, relay(b) as at_b:
        slow = at_a.call("echo")
        await held.begun.acquire()
        for n in range(200):
            assert await at_b.text("echo", {"text": str(n)}) == f"B:None:{n}"
        assert not slow.done()
        held.release.set()
        assert outcome(await slow) == "A:None"


async def test_f20_release_concerns_its_own_binding_and_may_come_late(bridge: Bridge) -> None:
    a, b = bridge.open(ECHO), bridge.open(ECHO)
    bridge.publish(b, ECHO, Echo("B"))
    a.revoke()
    a.revoke()
    a.unpublish()
    async with relay(b) as client:
        assert await client.text("echo") == "B:None:"
    await bridge.stop()
    a.revoke()
    b.revoke()
    with pytest.raises(BindingRevoked):
        await a.attached()


async def test_f25_bindings_work_without_any_relay(bridge: Bridge) -> None:
    binding = bridge.open(ECHO)
    heard: list[int] = []
    binding.on_definitions(lambda: heard.append(len(binding.definitions)))
    assert (await binding.call("echo", {}, call_id="0")).is_error
    bridge.publish(binding, [*ECHO, tool("more")], Echo("A"), "sa")
    assert await binding.call("echo", {"text": "n"}, call_id="1") == CallResult.text("A:sa:n")
    assert (await binding.call("absent", {}, call_id="2")).is_error
    bridge.unpublish(binding)
    assert heard == [2, 0]


async def test_b23_two_hundred_calls_from_two_sessions_carry_their_own(bridge: Bridge) -> None:
    """Through sub-tasks, executor threads and parallel batches, with a barrier inside the tool."""
    arrived = itertools.count(1)
    barrier = asyncio.Event()

    async def ask() -> object:
        return session_context()

    async def dispatcher(call: ToolCall) -> CallResult:
        if next(arrived) >= 40:
            barrier.set()
        await barrier.wait()
        async with asyncio.TaskGroup() as group:
            below = [group.create_task(ask()) for _ in range(2)]
            thread = group.create_task(asyncio.to_thread(session_context))
        seen = {call.context, session_context(), thread.result(), *(task.result() for task in below)}
        return CallResult.text(",".join(map(str, seen)))

    sessions = {name: bridge.open() for name in ("one", "two")}
    for name, binding in sessions.items():
        bridge.publish(binding, ECHO, dispatcher, name)
    async with relay(sessions["one"]) as first, relay(sessions["two"]) as second:
        for _ in range(5):
            batch = [(n, c.call("echo")) for _ in range(20) for n, c in (("one", first), ("two", second))]
            native = [(n, asyncio.create_task(b.call("echo", {}, call_id="x"))) for n, b in sessions.items()]
            assert [outcome(await reply) for _, reply in batch] == [name for name, _ in batch]
            assert [(await reply).content[0]["text"] for _, reply in native] == [name for name, _ in native]


async def test_b24_outside_a_call_there_is_no_session(bridge: Bridge) -> None:
    for name in ("one", "two"):
        bridge.publish(bridge.open(), ECHO, Echo("A"), name)
    with pytest.raises(NoSessionContext):
        session_context()


async def test_cancelling_ends_the_call_and_nobody_is_answered(bridge: Bridge) -> None:
    binding = bridge.open()
    held = Held("A")
    bridge.publish(binding, ECHO, held)
    async with relay(binding) as client:
        client.ask("tools/call", {"name": "echo"}, ident="gone")
        await held.begun.acquire()
        client.tell("notifications/cancelled", requestId="gone", reason="changed my mind")
        client.tell("notifications/cancelled", requestId="never was")
        await client.ask("ping")
        held.release.set()
        assert await client.text("echo") == "A:None"
        assert held.cancelled == 1
        assert client.stray == []


async def test_a_call_cancelled_before_it_ran_leaves_nothing(bridge: Bridge) -> None:
    binding = bridge.open()
    held = Held("A")
    bridge.publish(binding, ECHO, held)
    async with relay(binding) as client:
        for _ in range(100):
            client.raw(
                b'{"id":1,"method":"tools/call","params":{"name":"echo"}}\n'
                b'{"method":"notifications/cancelled","params":{"requestId":1}}\n'
            )
        await client.ask("ping")
        assert bridge.stats.calls_running == 0
        assert bridge.stats.calls_ended == 100
        held.release.set()
        assert await client.text("echo") == "A:None"


async def test_unpublishing_ends_the_calls_with_an_error(bridge: Bridge) -> None:
    binding = bridge.open()
    held = Held("A")
    bridge.publish(binding, ECHO, held)
    async with relay(binding) as client:
        await client.initialize()
        by_relay = client.call("echo")
        by_channel = asyncio.create_task(binding.call("echo", {}, call_id="n"))
        await held.begun.acquire()
        await held.begun.acquire()
        bridge.unpublish(binding)
        assert outcome(await by_relay) == "-32012"
        assert (await by_channel).is_error
        await client.notice(CHANGED)
        assert await client.names() == []
    assert held.cancelled == 2


async def test_progress_and_log_go_to_the_caller_who_asked(bridge: Bridge) -> None:
    async def busy(call: ToolCall) -> CallResult:
        call.log("debug", "not asked for")
        call.progress(1, 2, "half")
        call.log("warning", {"what": "odd"}, "tool")
        return CallResult.text("done")

    binding = bridge.open()
    bridge.publish(binding, ECHO, busy)
    other = bridge.open(ECHO)
    async with relay(binding) as client, relay(other) as neighbour:
        await client.initialize()
        await neighbour.initialize()
        await client.ask("logging/setLevel", {"level": "info"})
        await client.call("echo", _meta={"progressToken": "p1"})
        await client.call("echo")
        assert [(message["method"], message["params"]) for message in client.notices] == [
            ("notifications/progress", {"progressToken": "p1", "progress": 1, "total": 2, "message": "half"}),
            ("notifications/message", {"level": "warning", "data": {"what": "odd"}, "logger": "tool"}),
            ("notifications/message", {"level": "warning", "data": {"what": "odd"}, "logger": "tool"}),
        ]
        assert neighbour.notices == []
        heard: list[tuple[object, ...]] = []
        await binding.call("echo", {}, call_id="1", progress=lambda *said: heard.append(said))
        assert heard == [(1, 2, "half")]


async def test_too_many_calls_at_once_are_refused_for_that_session_only(tmp_path: Path) -> None:
    async with running_bridge(tmp_path, calls_per_binding=2) as bridge:
        a, b = bridge.open(), bridge.open()
        held = Held("A")
        bridge.publish(a, ECHO, held)
        bridge.publish(b, ECHO, Echo("B"))
        async with relay(a) as at_a, relay(b) as at_b:
            running = [at_a.call("echo"), at_a.call("echo")]
            assert outcome(await at_a.call("echo")) == "-32013"
            assert await at_b.text("echo") == "B:None:"
            held.release.set()
            assert [outcome(await reply) for reply in running] == ["A:None"] * 2


async def test_a_client_that_does_not_read_waits_alone_and_bounded(tmp_path: Path) -> None:
    async def loud(call: ToolCall) -> CallResult:
        return CallResult.text("x" * 300_000)

    async with running_bridge(tmp_path, outgoing_limit=1_000_000) as bridge:
        deaf, keen = bridge.open(), bridge.open()
        bridge.publish(deaf, ECHO, loud)
        bridge.publish(keen, ECHO, Echo("B"))
        reader, writer = await asyncio.open_unix_connection(bridge.socket_path, limit=1000)
        writer.write(hello(deaf.token))
        reader._transport.pause_reading()  # type: ignore[attr-defined] - streams hide it
        for ident in range(40):
            call = {"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": {"name": "echo"}}
            writer.write(json.dumps(call).encode() + b"\n")
        async with asyncio.timeout(300):
            while bridge.stats.frames_dropped == 0:  # noqa: ASYNC110 - counters have no event, by design
                await asyncio.sleep(0)
        async with connection(bridge.socket_path, keen.token) as client:
            assert await client.text("echo") == "B:None:"
        reader._transport.resume_reading()  # type: ignore[attr-defined] - streams hide it
        answered = set()
        while len(answered) < 40:
            answered.add(json.loads(await _line(reader))["id"])
        assert answered == set(range(40))
        writer.close()
        await writer.wait_closed()


async def _line(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while not parts or not parts[-1].endswith(b"\n"):
        try:
            parts.append(await reader.readuntil(b"\n"))
        except asyncio.LimitOverrunError as error:
            parts.append(await reader.readexactly(error.consumed))
    return b"".join(parts)


class _Identity:
    def __init__(self, pid: int, start_time: int) -> None:
        self.pid = pid
        self.start_time = start_time
