"""People with bad intentions on the socket: nothing gets in, nothing hangs, the others are served. W10, W7b, W7c."""

import asyncio
import contextlib
import os
import resource
import secrets
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.errors import SocketRefused
from ostler.bridge.hello import Hello, parse
from ostler.bridge.peers import ancestry
from ostler.bridge.server import Bridge
from ostler.bridge.session_binding import SessionBinding
from ostler.bridge.settings import BridgeSettings
from tests.support.relays import Client, Echo, connection, hello, open_connection, relay, running_bridge, tool
from tests.support.waiting import soon

ECHO = [tool("echo", text={"type": "string"})]
NOBODY = 65534


@pytest.fixture
async def bridge(tmp_path: Path) -> AsyncIterator[Bridge]:
    async with running_bridge(tmp_path) as running:
        yield running


def victim(bridge: Bridge) -> SessionBinding:
    binding = bridge.open()
    bridge.publish(binding, ECHO, Echo("victim"), "v")
    return binding


@asynccontextmanager
async def bystander(bridge: Bridge) -> AsyncIterator[Client]:
    """Somebody with a right to be served; asked at the end whether they still are."""
    async with relay(victim(bridge)) as client:
        assert await client.text("echo") == "victim:v:"
        yield client
        assert await client.text("echo") == "victim:v:"


AWAY = -32014
"""What a relay says that has not reached the bridge for ten seconds."""


async def refused(client: Client) -> bool:
    reply = await client.call("echo")
    return "result" not in reply and reply["error"]["code"] == -32010


async def test_guessed_truncated_and_replayed_tokens_get_nothing(bridge: Bridge) -> None:
    async with bystander(bridge):
        target, other = victim(bridge), victim(bridge)
        near = [target.token[:-1] + digit for digit in "0123456789abcdef" if digit != target.token[-1]]
        guesses = [secrets.token_hex(16) for _ in range(50)] + near
        guesses += [target.token[:16], target.token + target.token, target.token[::-1], f"{target.token} "]
        guesses += [target.token + "\0", "*", "../" + target.token, target.token.replace("0", "O").upper()]
        for guess in guesses:
            async with connection(bridge.socket_path, guess) as client:
                assert await refused(client)
        other.revoke()
        async with connection(bridge.socket_path, other.token) as client:
            assert await refused(client)
        async with connection(bridge.socket_path, target.token) as client:
            assert await client.text("echo") == "victim:v:"


async def test_w11_no_printed_value_shows_a_token(bridge: Bridge) -> None:
    """What is printed ends up in logs: of a failed start, of a slow callback, of a debugger's neighbour."""
    target = victim(bridge)
    said = parse(hello(target.token).strip())
    assert isinstance(said, Hello)
    for value in (target, target.relay, said, bridge, vars(bridge)):
        assert target.token not in repr(value)


async def test_w07b_hello_after_data_is_no_hello(bridge: Bridge) -> None:
    target = victim(bridge)
    async with bystander(bridge):
        client = await open_connection(bridge.socket_path, None)
        assert await refused(client)
        client.raw(hello(target.token))
        assert await refused(client)
        await client.close()


async def test_w07c_another_version_is_refused(bridge: Bridge) -> None:
    target = victim(bridge)
    for version in ("0", "2", "", "1.0", "one"):
        client = await open_connection(bridge.socket_path, f"OSTLER/{version} 1 {target.token}\n".encode())
        assert await refused(client)
        await client.close()
    assert bridge.stats.refused == {"version": 5}


async def test_a_hundred_megabytes_of_hello_are_not_read(bridge: Bridge) -> None:
    async with bystander(bridge):
        reader, writer = await asyncio.open_unix_connection(bridge.socket_path)
        assert await pour(writer, 100) < 10
        writer.close()
        assert await closed(reader)


async def test_w07b_slow_loris_is_shown_the_door(tmp_path: Path) -> None:
    async with running_bridge(tmp_path, hello_deadline=0.2) as bridge, bystander(bridge):
        silent = [await open_connection(bridge.socket_path, None) for _ in range(20)]
        slow = [await open_connection(bridge.socket_path, b"O") for _ in range(20)]
        for number in b"STLER/1 ":
            for client in slow:
                client.raw(bytes([number]))
            await asyncio.sleep(0.02)
        async with asyncio.timeout(300):
            for client in silent + slow:
                await client.closed.wait()
        assert bridge.stats.hello_timeouts == 40
        for client in silent + slow:
            await client.close()


async def test_ten_thousand_connections_neither_exhaust_nor_block(tmp_path: Path) -> None:
    """Opened in waves from a process of its own, as many at once as its limit allows."""
    program = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
opened, held = 0, []
while opened < 10_000:
    link = socket.socket(socket.AF_UNIX)
    link.connect(sys.argv[1])
    held.append(link)
    opened += 1
    if len(held) == 2500:
        held.clear()
print(opened)
"""
    async with running_bridge(tmp_path) as bridge, bystander(bridge) as client:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 400, limits[1]))  # noqa: PTH208 - counted, not read
        try:
            flood = await asyncio.create_subprocess_exec(
                sys.executable, "-c", program, bridge.socket_path, stdout=asyncio.subprocess.PIPE
            )
            served = 0
            finished = asyncio.create_task(flood.communicate())
            # An honest relay that comes late gets its place in the middle of it, be it after it was told to try later.
            async with relay(victim(bridge)) as late:
                while "error" in (reply := await late.call("echo", {"text": "late"})):
                    assert reply["error"]["code"] == AWAY
                assert reply["result"]["content"][0]["text"] == "victim:v:late"
            while not finished.done():
                assert await client.text("echo", {"text": "x"}) == "victim:v:x"
                served += 1
            assert (await finished)[0] == b"10000\n"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert served > 0
        assert bridge.stats.evicted > 1_000


async def test_a_table_full_of_descriptors_is_survived(tmp_path: Path) -> None:
    async with running_bridge(tmp_path) as bridge, bystander(bridge):
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        links = [socket.socket(socket.AF_UNIX) for _ in range(40)]
        for link in links:
            link.setblocking(False)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 8, limits[1]))  # noqa: PTH208 - counted, not read
        try:
            for link in links:
                link.connect(bridge.socket_path)
            async with asyncio.timeout(300):
                while bridge.stats.evicted < 5:  # noqa: ASYNC110 - counters have no event, by design
                    await asyncio.sleep(0.01)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for link in links:
                link.close()


async def test_w07a_a_sibling_with_a_stolen_token_is_refused(bridge: Bridge) -> None:
    target = victim(bridge)
    agent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)  # noqa: ASYNC220 - returns at once
    target.owned_by(ancestry(agent.pid)[0])
    async with bystander(bridge), relay(target) as thief:
        assert await refused(thief)
    assert bridge.stats.refused == {"foreign": 1}
    agent.kill()
    agent.communicate()


async def test_w07a_after_its_agent_died_a_token_opens_nothing(bridge: Bridge) -> None:
    target = victim(bridge)
    agent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)  # noqa: ASYNC220 - returns at once
    target.owned_by(ancestry(agent.pid)[0])
    agent.kill()
    agent.communicate()
    async with relay(target) as orphan:
        assert await refused(orphan)


async def test_w10_a_symlinked_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "bridge").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SocketRefused):
        await Bridge(BridgeSettings(data_directory=tmp_path)).start()
    assert list((tmp_path / "elsewhere").glob("*")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
async def test_w10_f13_another_user_is_refused(bridge: Bridge, tmp_path: Path) -> None:
    target = victim(bridge)
    program = f"""
import os, socket
os.setgid({NOBODY}); os.setuid({NOBODY})
link = socket.socket(socket.AF_UNIX)
try:
    link.connect({bridge.socket_path!r})
except PermissionError:
    raise SystemExit("closed")
link.sendall(b"OSTLER/1 1 {target.token}\\n" + b'{{"jsonrpc":"2.0","id":1,"method":"tools/list"}}\\n')
print(link.recv(1000).decode())
"""
    async with bystander(bridge):
        assert await said_by(program) == (b"", b"closed\n")
        # Even if every mode were wrong, the kernel's word about the peer decides.
        for path in (Path(bridge.socket_path), *Path(bridge.socket_path).parents):
            path.chmod(0o777)
        out, err = await said_by(program)
        assert b"result" not in out
        assert err != b"closed\n"
    assert bridge.stats.refused["uid"] == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
async def test_w10_the_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bridge").mkdir()
    os.chown(tmp_path / "bridge", NOBODY, NOBODY)
    with pytest.raises(SocketRefused):
        await Bridge(BridgeSettings(data_directory=tmp_path)).start()


async def said_by(program: str) -> tuple[bytes, bytes]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=pipe, stderr=pipe)
    return await process.communicate()


async def pour(writer: asyncio.StreamWriter, megabytes: int) -> int:
    """How many of them were taken before the connection was closed."""
    for taken in range(megabytes):
        writer.write(b"x" * 1_000_000)
        try:
            await writer.drain()
        except ConnectionError:
            return taken
    return megabytes


async def closed(reader: asyncio.StreamReader) -> bool:
    try:
        return b"result" not in await reader.read()
    except ConnectionError:
        return True


async def test_f12_a_stop_that_is_cancelled_leaves_the_place_free(tmp_path: Path) -> None:
    """By a shutdown that has no more time; the tool here will not be stopped."""
    begun, over = asyncio.Event(), asyncio.Event()

    async def stubborn(call: ToolCall) -> CallResult:
        begun.set()
        while not over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await over.wait()
        return CallResult.text(call.name)

    settings = BridgeSettings(data_directory=tmp_path)
    bridge = Bridge(settings)
    await bridge.start()
    binding = bridge.open()
    bridge.publish(binding, ECHO, stubborn)
    async with relay(binding) as client:
        try:
            asked = client.call("echo")
            await soon(begun.wait(), "the call runs")
            stopping = asyncio.create_task(bridge.stop())
            assert "error" in await soon(asked, "the call is answered")
            stopping.cancel()
            with pytest.raises(asyncio.CancelledError):
                await stopping
        finally:
            over.set()
    async with running_bridge(tmp_path) as again:
        await again.stop()
