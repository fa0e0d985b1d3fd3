"""The relay as a process: what it does when the bridge goes, comes back, or never comes. M7, W7a."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ostler.bridge.errors import BindingRevoked
from ostler.bridge.peers import ancestry
from ostler.bridge.server import Bridge
from ostler.bridge.session_binding import RELAY, Loss
from tests.support.relays import (
    LIMIT,
    Echo,
    Held,
    Relay,
    connection,
    hello,
    open_connection,
    relay,
    relay_process,
    running_bridge,
    tool,
)
from tests.support.waiting import eventually, soon
from tests.support.witness import arguments, environment

ECHO = [tool("echo", text={"type": "string"})]
TOKEN = "0123456789abcdef" * 2
FOREVER = 3600.0


@pytest.fixture
async def bridge(tmp_path: Path) -> AsyncIterator[Bridge]:
    async with running_bridge(tmp_path) as running:
        yield running


class Script:
    """A bridge by hand: hands out the connections that a relay makes, one after the other."""

    def __init__(self) -> None:
        self.arrived: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self.writers: list[asyncio.StreamWriter] = []

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        await self.arrived.put((reader, writer))

    async def next(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await self.arrived.get()
        assert (await reader.readline()).split()[::2] == [b"OSTLER/1", TOKEN.encode()]
        return reader, writer


@asynccontextmanager
async def script(path: Path) -> AsyncIterator[Script]:
    played = Script()
    server = await asyncio.start_unix_server(played.take, path, limit=LIMIT)
    try:
        yield played
    finally:
        server.close()
        for writer in played.writers:
            writer.close()


def scripted(path: Path, *, patience: float | None = None) -> Any:
    """A relay of its own, with its patience shortened where a test waits for the end of it."""
    argv = [sys.executable, "-I", "-S", "-E", str(RELAY), "relay"]
    if patience is not None:
        started = f"import sys; sys.path.append({str(RELAY.parent)!r}); import relay; relay.PATIENCE = {patience}"
        argv[4:] = ["-c", f"{started}; relay.main()"]
    return relay_process(argv, {"OSTLER_BRIDGE_SOCKET": str(path), "OSTLER_ACP_SESSION_BINDING": TOKEN})


class Wire:
    """A cable between relay and bridge that can be pulled. The bridge sees one peer process: this one."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.pairs: list[asyncio.StreamWriter] = []
        self.up = asyncio.Event()

    async def plug(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_unix_connection(self.target)
        self.pairs += [writer, far_writer]
        self.up.set()
        await asyncio.gather(self.copy(reader, far_writer), self.copy(far_reader, writer))

    async def copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        except ConnectionError:
            return
        finally:
            writer.close()

    def pull(self) -> None:
        for writer in self.pairs:
            writer.close()
        self.pairs.clear()
        self.up.clear()


async def test_m07_answers_cross_a_lost_connection(bridge: Bridge, tmp_path: Path) -> None:
    binding = bridge.open()
    held = Held("A")
    bridge.publish(binding, ECHO, held, "sa")
    wire = Wire(bridge.socket_path)
    server = await asyncio.start_unix_server(wire.plug, tmp_path / "wire")
    env = {**binding.relay.env, "OSTLER_BRIDGE_SOCKET": str(tmp_path / "wire")}
    async with relay_process(binding.relay.argv, env) as client:
        await client.initialize()
        await client.ask("ping")
        running = client.call("echo")
        await held.begun.acquire()
        wire.pull()
        while bridge.stats.connected:  # noqa: ASYNC110 - counters have no event, by design
            await asyncio.sleep(0)
        held.release.set()
        assert (await running)["result"]["content"][0]["text"] == "A:sa"
        # The MCP session survived: a notice still comes, without a new initialize.
        bridge.publish(binding, [*ECHO, tool("more")], Echo("A2"), "sa")
        await client.notice("notifications/tools/list_changed")
        assert bridge.stats.reconnects == 1
    server.close()


async def test_m07_calls_of_a_relay_that_never_returns_are_ended(tmp_path: Path) -> None:
    async with running_bridge(tmp_path, reconnect_grace=0.05) as bridge:
        binding = bridge.open()
        held = Held("A")
        bridge.publish(binding, ECHO, held)
        async with relay(binding) as client:
            client.call("echo")
            await held.begun.acquire()
        async with asyncio.timeout(300):
            while not held.cancelled:  # noqa: ASYNC110 - what ends it is a timer of the bridge
                await asyncio.sleep(0.01)
        assert held.cancelled == 1


async def test_m07_a_frame_written_in_part_is_sent_again_whole(tmp_path: Path) -> None:
    path = tmp_path / "s"
    frame = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"text": "y" * 3_000_000}}).encode()
    async with script(path) as played, scripted(path) as client:
        reader, writer = await played.next()
        client.raw(b'{"first":1}\n' + frame + b"\n")
        assert await reader.readline() == b'{"first":1}\n'
        await reader.readexactly(100_000)
        writer.close()
        reader, writer = await played.next()
        assert await reader.readline() == frame + b"\n"
        client.raw(b'{"last":1}\n')
        assert await reader.readline() == b'{"last":1}\n'
        writer.close()


async def test_m07_what_was_not_written_waits_for_the_bridge(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with scripted(path) as client:
        client.raw(b'{"a":1}\n{"b":')
        await asyncio.sleep(0.1)
        async with script(path) as played:
            reader, writer = await played.next()
            assert await reader.readline() == b'{"a":1}\n'
            client.raw(b"2}\n")
            assert await reader.readline() == b'{"b":2}\n'
            writer.close()


async def test_m07_a_frame_that_arrived_in_part_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with script(path) as played, scripted(path) as client:
        _, writer = await played.next()
        writer.write(b'{"method":"one"}\n{"method":"tw')
        await client.notice("one")
        writer.close()
        _, writer = await played.next()
        writer.write(b'{"method":"three"}\n')
        await client.notice("three")
        assert [notice["method"] for notice in client.notices] == ["one", "three"]
        writer.close()


async def test_m07_what_the_bridge_said_before_it_closed_is_delivered(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with script(path) as played, scripted(path) as client:
        _, writer = await played.next()
        for number in range(2000):
            writer.write(b'{"method":"m","params":%d}\n' % number)
        client.raw(b'{"in":"flight"}\n' * 10)
        writer.close()
        await played.next()
        while len(client.notices) < 2000:
            client.noticed.clear()
            await client.noticed.wait()
        assert [notice["params"] for notice in client.notices] == list(range(2000))


async def test_m07_requests_are_answered_while_the_bridge_is_away_for_long(tmp_path: Path) -> None:
    async with scripted(tmp_path / "nowhere", patience=0.05) as client:
        client.tell("notifications/initialized")
        reply = await client.ask("tools/call", {"name": "echo"}, ident="early")
        assert reply["error"]["code"] == -32014
        client.raw(b"not json\n" + b'{"id":1,"method":"deep","params":' + b"[" * 100_000 + b"\n")
        assert (await client.ask("ping", {"text": "x" * 2_000_000}))["error"]["code"] == -32014
        async with script(tmp_path / "nowhere") as played:
            reader, writer = await played.next()
            client.raw(b'{"back":1}\n')
            assert await reader.readline() == b'{"back":1}\n'
            writer.close()


async def ends_at_once(client: Relay) -> None:
    client.writer.close()
    async with asyncio.timeout(300):
        assert await client.process.wait() == 0


async def test_it_leaves_when_stdin_ends(bridge: Bridge, tmp_path: Path) -> None:
    async with relay(bridge.open(ECHO)) as client:
        await client.initialize()
        await ends_at_once(client)
    async with scripted(tmp_path / "nowhere") as client:
        await ends_at_once(client)


async def test_m09_it_is_sent_home_when_its_session_is_over_and_at_once_when_it_is_dismissed(tmp_path: Path) -> None:
    async with running_bridge(tmp_path / "soon", farewell_after=0.01) as bridge:
        binding = bridge.open(ECHO)
        async with relay(binding) as client:
            await client.initialize()
            binding.revoke()
            async with asyncio.timeout(300):
                assert await client.process.wait() == 0
    async with running_bridge(tmp_path / "late", farewell_after=FOREVER) as bridge:
        binding = bridge.open(ECHO)
        async with relay(binding) as client:
            await client.initialize()
            binding.dismiss()
            binding.revoke()
            # It answers still: a dismissal before the end is none.
            assert (await client.ask("tools/list"))["error"]["code"] == -32010
            binding.dismiss()
            binding.dismiss()
            async with asyncio.timeout(300):
                assert await client.process.wait() == 0


async def test_m07_who_asks_for_the_loss_of_a_relay_that_is_lost_already_is_told_at_once(bridge: Bridge) -> None:
    binding = bridge.open(ECHO)
    told: list[str] = []
    async with relay(binding) as client:
        await client.initialize()
        await client.tools()
        binding.on_gone(lambda: told.append("early"))
        assert told == []
    await eventually(lambda: told == ["early"], "the end of the relay")
    binding.on_gone(lambda: told.append("late"))
    assert told == ["early", "late"]
    assert (binding.lost, bridge.stats.lost) == (Loss.ENDED, {"ended": 1})


async def test_it_leaves_though_nobody_takes_what_it_holds(tmp_path: Path) -> None:
    """Its input is full and unread, its output is full and unread; the end of stdin still reaches it."""
    path = tmp_path / "s"
    async with script(path) as played:
        pipe = asyncio.subprocess.PIPE
        env = {"OSTLER_BRIDGE_SOCKET": str(path), "OSTLER_ACP_SESSION_BINDING": TOKEN}
        out_read, out_write = os.pipe()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", "-E", str(RELAY), env=env, stdin=pipe, stdout=out_write
        )
        os.close(out_write)
        assert process.stdin is not None
        reader, writer = await played.next()
        reader._transport.pause_reading()  # type: ignore[attr-defined] - streams hide it
        writer.write(b"{}\n" * 1_000_000)
        process.stdin.write(b"x" * 1000 + b"\n" + b"{}\n" * 1_000_000)
        await asyncio.sleep(0.3)
        assert process.returncode is None
        process.stdin.transport.abort()
        async with asyncio.timeout(300):
            assert await process.wait() == 0
        writer.close()
        os.close(out_read)


async def test_w07a_a_grandchild_with_the_token_works_and_without_it_is_refused(bridge: Bridge) -> None:
    binding = bridge.open(ECHO)
    argv = [sys.executable, "-c", "import os,subprocess,sys; subprocess.run(sys.argv[1:])"]
    env = {**os.environ, **binding.relay.env}
    async with relay_process([*argv, *argv, *binding.relay.argv], env) as client:
        binding.owned_by(ancestry(client.process.pid)[0])
        assert await client.names() == ["echo"]
        async with relay_process([*argv, *binding.relay.argv], {**env, "OSTLER_ACP_SESSION_BINDING": ""}) as other:
            assert (await other.ask("tools/list"))["error"]["code"] == -32010


async def test_w07a_a_recycled_pid_is_not_the_process(bridge: Bridge) -> None:
    binding = bridge.open(ECHO)
    me = ancestry(os.getpid())[0]
    binding.owned_by(type(me)(me.pid, me.start_time + 1))
    async with connection(bridge.socket_path, binding.token) as client:
        assert (await client.ask("tools/list"))["error"]["code"] == -32010
    binding.owned_by(me)
    async with connection(bridge.socket_path, binding.token) as client:
        assert await client.names() == ["echo"]
    assert bridge.stats.refused == {"foreign": 1}


async def test_n29_a_token_that_two_processes_have_shown_is_good_for_neither(bridge: Bridge) -> None:
    binding, told = bridge.open(), []
    held = Held("A")
    bridge.publish(binding, ECHO, held)
    binding.on_gone(lambda: told.append("gone"))
    async with relay(binding) as first:
        await first.initialize()
        running = first.call("echo")
        await held.begun.acquire()
        async with relay(binding) as second:
            assert (await second.ask("tools/list"))["error"]["code"] == -32010
        assert (await running)["error"]["code"] == -32012
        assert (await first.ask("tools/list"))["error"]["code"] == -32010
    assert (held.cancelled, told, binding.lost) == (1, ["gone"], Loss.SHOWN_TWICE)
    assert bridge.stats.refused == {"second": 1}


async def test_n29_a_token_dies_with_the_first_process_that_showed_it(bridge: Bridge) -> None:
    binding, told = bridge.open(), []
    held = Held("A")
    bridge.publish(binding, ECHO, held)
    binding.on_gone(lambda: told.append("gone"))
    async with relay(binding) as first:
        await first.initialize()
        first.call("echo")
        await held.begun.acquire()
        first.process.kill()
        await first.process.wait()
        async with relay(binding) as thief:
            assert (await thief.call("echo"))["error"]["code"] == -32010
    await eventually(lambda: told == ["gone"], "the end of the first relay")
    assert (len(held.seen), held.cancelled) == (1, 1)


async def test_n16_a_relay_that_lives_and_stays_away_is_given_up_after_the_grace(tmp_path: Path) -> None:
    async with running_bridge(tmp_path, reconnect_grace=0.05) as bridge:
        binding, told = bridge.open(ECHO), asyncio.Event()
        binding.on_gone(told.set)
        async with connection(bridge.socket_path, binding.token) as client:
            assert await client.names() == ["echo"]
        await soon(told.wait(), "the end of the grace")
        assert binding.lost is Loss.AWAY
        with pytest.raises(BindingRevoked):
            binding.publish(ECHO, Echo("A"))


async def test_n29_the_token_is_not_in_the_environment_that_proc_shows(bridge: Bridge) -> None:
    binding = bridge.open(ECHO)
    async with relay(binding) as client:
        assert await client.names() == ["echo"]
        shown = environment(client.process.pid)
        assert shown.get("OSTLER_ACP_SESSION_BINDING", "0" * 32) == "0" * 32, "only root may look at all"
        assert not any(binding.token in word for word in arguments(client.process.pid))


def test_n29_the_memory_of_a_relay_is_closed_to_its_neighbours() -> None:
    asked = "import ctypes, sys; sys.path.append(sys.argv[1]); import relay; relay.close_memory()"
    code = f"{asked}; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    done = subprocess.run([sys.executable, "-I", "-c", code, str(RELAY.parent)], capture_output=True, check=True)
    assert done.stdout == b"0\n"


async def test_the_same_process_may_come_back_before_its_old_connection_is_gone(bridge: Bridge) -> None:
    binding = bridge.open(ECHO)
    async with AsyncExitStack() as stack:
        old = await stack.enter_async_context(connection(bridge.socket_path, binding.token))
        assert await old.names() == ["echo"]
        new = await open_connection(bridge.socket_path, hello(binding.token))
        assert await new.names() == ["echo"]
        await old.closed.wait()
        await new.close()
    assert bridge.stats.reconnects == 1


async def test_an_agent_that_ends_it_by_sigint_hears_nothing_from_it(tmp_path: Path) -> None:
    path, pipe = tmp_path / "s", asyncio.subprocess.PIPE
    async with script(path) as played:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-E", str(RELAY), "relay"),
            env={"OSTLER_BRIDGE_SOCKET": str(path), "OSTLER_ACP_SESSION_BINDING": TOKEN},
            **dict.fromkeys(("stdin", "stdout", "stderr"), pipe),
        )
        await played.next()
        process.send_signal(signal.SIGINT)
        said = await soon(process.communicate(), "its end")
    assert (process.returncode, said) == (0, (b"", b""))
