"""Shared tool servers: real processes, the official client library, real relays in front."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import uvloop

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.offer import Offer, combined
from ostler.bridge.server import Bridge
from ostler.bridge.session_binding import SessionBinding
from ostler.bridge.upstreams.process import environment, running
from ostler.bridge.upstreams.remote import Remote
from ostler.bridge.upstreams.settings import UpstreamSettings
from ostler.bridge.upstreams.shared import SessionUpstreams, Upstreams
from ostler.bridge.upstreams.upstream import Upstream
from ostler.wire.json import JsonObject
from tests.support.http_tools import running_channel
from tests.support.refusing_loops import KINDS, Refused, refusing
from tests.support.relays import Echo, Held, relay, running_bridge, tool
from tests.support.waiting import eventually, soon
from tests.support.witness import open_files

SMALL = (sys.executable, "-I", "-S", str(Path(__file__).parents[2] / "support" / "small_server.py"))


@pytest.fixture
async def bridge(tmp_path: Path) -> AsyncIterator[Bridge]:
    async with running_bridge(tmp_path) as running:
        yield running


def small(name: str = "small", *arguments: str, **settings: Any) -> UpstreamSettings:
    return UpstreamSettings(name=name, command=(*SMALL, *arguments), **settings)


@asynccontextmanager
async def upstreams(*settings: UpstreamSettings) -> AsyncIterator[Upstreams]:
    # No jitter: the first pause is half of half a second.
    running = Upstreams(settings, draw=lambda: 0.0)
    await running.start()
    try:
        yield running
    finally:
        await running.stop()


async def test_w34a_a_session_that_is_given_up_while_its_servers_start_leaves_none() -> None:
    silent = UpstreamSettings(name="silent", command=("sleep", "60"), per_session=True)
    async with upstreams(silent) as servers:
        opening = asyncio.create_task(servers.open(provider="demo", session="s"))
        await asyncio.sleep(0)
        assert servers.own
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert servers.own == ()


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments, "call-1", None, lambda *_: None, lambda *_: None)


async def ask(session: SessionUpstreams, name: str, **arguments: Any) -> CallResult:
    for offer in session.offers():
        if name in [each["name"] for each in offer.definitions]:
            return await offer.dispatcher(call(name, **arguments))
    raise LookupError(name)


def text(result: CallResult) -> str:
    said: str = result.content[0]["text"]
    return said


def names(session: SessionUpstreams) -> list[str]:
    return [each["name"] for offer in session.offers() for each in offer.definitions]


def publish(
    binding: SessionBinding, session: SessionUpstreams, offers: Sequence[Offer], context: object = None
) -> None:
    """What a turn does: the tools of its own, then those of the servers."""
    taken = [each["name"] for offer in offers for each in offer.definitions]
    whole = combined([*offers, *session.offers(taken)])
    binding.publish(whole.definitions, whole.dispatcher, context)


async def ended(pid: int) -> None:
    """Until the process is gone or a zombie: it is not our child, so there is nothing to wait on."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            await asyncio.to_thread(process.wait, 10)


async def back(upstream: Upstream) -> None:
    """Until it runs; there is no event for it, because nobody but a test waits for one server."""
    while not upstream.running:  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.02)


async def test_many_sessions_share_one_process(bridge: Bridge) -> None:
    async with upstreams(small("one"), small("two")) as servers:
        bindings = [bridge.open() for _ in range(10)]
        for number, binding in enumerate(bindings):
            session = await servers.open(provider="gemini", session=str(number))
            publish(binding, session, [Offer([tool("own")], Echo(str(number)))], f"session-{number}")
        async with relay(bindings[0]) as first, relay(bindings[9]) as last:
            await first.initialize()
            await last.initialize()
            assert await first.text("one_whoami") == await last.text("one_whoami")
            assert await first.text("one_whoami") != await first.text("two_whoami")
            assert await last.text("one_echo", {"text": "hi"}) == "hi"
            assert await last.text("own") == "9:session-9:"
            assert (await first.names())[:3] == ["own", "one_echo", "one_whoami"]
        assert [each.starts for each in servers.shared] == [1, 1]


async def test_a_tool_that_agents_cannot_be_told_of_hides_no_other(
    bridge: Bridge, caplog: pytest.LogCaptureFixture
) -> None:
    async with upstreams(small("odd", "--huge")) as servers:
        session = await servers.open(provider="gemini", session="s")
        (offer,) = session.offers()
        bridge.publish(bridge.open(), offer.definitions, offer.dispatcher)
        assert [each["name"] for each in offer.definitions][:2] == ["odd_echo", "odd_whoami"]
        assert "odd_huge" not in {each["name"] for each in offer.definitions}
    assert "a tool is hidden" in caplog.text


async def test_a_change_of_tools_is_in_what_each_session_publishes_next(bridge: Bridge) -> None:
    async with upstreams(small()) as servers:
        sessions = [await servers.open(provider="gemini", session=name) for name in "ab"]
        first, second = bridge.open(), bridge.open()
        publish(first, sessions[0], [])
        async with relay(first) as at_a, relay(second) as at_b:
            for client in (at_a, at_b):
                await client.initialize()
            await at_a.text("small_grow")
            await eventually(lambda: "small_more8" in names(sessions[1]), "the tools are listed again")
            assert "small_more8" not in await at_a.names()
            for binding, session in zip((first, second), sessions, strict=True):
                publish(binding, session, [])
            assert "small_more8" in await at_a.names()
            assert "small_more8" in await at_b.names()


async def test_a_dead_server_answers_errors_until_it_is_back(bridge: Bridge) -> None:
    async with upstreams(small()) as servers:
        binding = bridge.open()
        publish(binding, (await servers.open(provider="gemini", session="s")), [Offer([tool("own")], Echo("A"))])
        async with relay(binding) as client:
            await client.initialize()
            before = await client.text("small_whoami")
            lost = (await client.call("small_die"))["result"]
            assert lost["isError"]
            assert "not known whether" in lost["content"][0]["text"]
            away = (await client.call("small_echo"))["result"]
            assert away["isError"]
            assert "dying as told" in away["content"][0]["text"]
            assert "hunter2" not in away["content"][0]["text"]
            assert await client.text("own") == "A:None:"
            async with asyncio.timeout(300):
                await back(servers.shared[0])
            assert await client.text("small_whoami") != before
            assert not client.notices
        assert servers.shared[0].starts == 2


async def test_a_call_in_flight_does_not_outlive_its_server() -> None:
    async with upstreams(small()) as servers:
        session = await servers.open(provider="gemini", session="s")
        pid = int(text(await ask(session, "small_whoami")))
        asking = [asyncio.create_task(ask(session, "small_hold")) for _ in range(3)]
        await asyncio.sleep(0)
        os.kill(pid, signal.SIGKILL)
        assert all(result.is_error for result in await asyncio.gather(*asking))


async def test_a_cancelled_call_leaves_the_server_alone() -> None:
    async with upstreams(small()) as servers:
        session = await servers.open(provider="gemini", session="s")
        asking = asyncio.create_task(ask(session, "small_hold"))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert text(await ask(session, "small_echo", text="still here")) == "still here"


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_stopping_leaves_no_process_behind_on_either_loop(loop: Any) -> None:
    async def scene() -> tuple[int, int]:
        async with upstreams(small()) as servers:
            session = await servers.open(provider="gemini", session="s")
            stubborn = int(text(await ask(session, "small_spawn")))
            return int(text(await ask(session, "small_whoami"))), stubborn

    with asyncio.Runner(loop_factory=loop) as runner:
        server, stubborn = runner.run(scene())
        runner.run(ended(server))
        runner.run(ended(stubborn))


@pytest.mark.parametrize("taken", [0, 1, 2])
@pytest.mark.parametrize("kind", KINDS, ids=["asyncio", "uvloop"])
def test_w33a_a_server_whose_pipes_the_loop_refuses_leaves_nothing(
    kind: type[asyncio.AbstractEventLoop], taken: int
) -> None:
    async def scene() -> None:
        with pytest.raises(Refused):
            async with running(SMALL, env=environment({}), cwd=None):
                raise AssertionError("it runs")

    def round_of_it() -> int:
        with asyncio.Runner(loop_factory=refusing(kind, taken)) as runner:
            runner.run(scene())
        return len(open_files())

    before = round_of_it()  # the first loop of a process opens what stays open
    assert [round_of_it() for _ in range(3)][-1] <= before


async def test_a_helper_that_got_away_does_not_hold_up_the_stop() -> None:
    async with upstreams(small()) as servers:
        session = await servers.open(provider="gemini", session="s")
        server, escaped = [int(text(await ask(session, name))) for name in ("small_whoami", "small_escape")]
    await ended(server)
    os.kill(escaped, signal.SIGKILL)
    await ended(escaped)


async def test_a_killed_gateway_leaves_no_process_behind() -> None:
    gateway = await asyncio.to_thread(
        subprocess.Popen,
        [sys.executable, "-m", "tests.support.upstream_gateway", *SMALL],
        stdout=subprocess.PIPE,
        text=True,
    )
    with gateway:
        assert gateway.stdout is not None
        pids = [int(each) for each in (await asyncio.to_thread(gateway.stdout.readline)).split()]
        assert len(pids) == 2
        assert all(psutil.pid_exists(pid) for pid in pids)
        gateway.kill()
    for pid in pids:
        await ended(pid)


async def test_a_session_of_its_own_starts_and_ends_with_it() -> None:
    async with upstreams(small(per_session=True)) as servers:
        a = await servers.open(provider="gemini", session="a")
        b = await servers.open(provider="gemini", session="b")
        pid_a, pid_b = int(text(await ask(a, "small_whoami"))), int(text(await ask(b, "small_whoami")))
        assert pid_a != pid_b
        await a.close()
        await ended(pid_a)
        assert int(text(await ask(b, "small_whoami"))) == pid_b
        assert not servers.shared
    await ended(pid_b)


async def test_who_may_see_what() -> None:
    async with upstreams(
        small("files", allow=("e*", "die"), deny=("die",), prefix="f-", sessions=("team-*",)),
        small("codex_only", providers=("codex*",), allow=("echo",)),
    ) as servers:
        assert names(await servers.open(provider="gemini", session="team-1")) == ["f-echo", "f-escape", "f-env"]
        assert names(await servers.open(provider="codex-acp", session="alone")) == ["codex_only_echo"]
        assert names(await servers.open(provider="gemini", session="alone")) == []
        session = await servers.open(provider="gemini", session="team-1")
        hidden = await session.offers()[0].dispatcher(call("f-die"))
        assert hidden.is_error


async def test_the_gateways_secrets_are_not_in_a_servers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OSTLER_TEST_SECRET", "x")
    async with upstreams(small(env={"GIVEN": "y"})) as servers:
        seen = text(await ask(await servers.open(provider="gemini", session="s"), "small_env"))
    assert "GIVEN" in seen
    assert "PATH" in seen
    assert "OSTLER" not in seen


async def test_a_servers_tool_does_not_push_aside_ours(bridge: Bridge, caplog: pytest.LogCaptureFixture) -> None:
    async with upstreams(small(prefix="", allow=("echo", "env"))) as servers:
        binding = bridge.open()
        session = await servers.open(provider="gemini", session="s")
        publish(binding, session, [Offer([tool("echo")], Echo("ours"))])
        async with relay(binding) as client:
            await client.initialize()
            assert await client.names() == ["echo", "env"]
            assert await client.text("echo") == "ours:None:"
    assert "hidden" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "reason"), [(["--die"], "cannot find the licence"), (["--mute"], "TimeoutError")]
)
async def test_a_server_that_does_not_come_up_does_not_hold_up_the_others(arguments: list[str], reason: str) -> None:
    broken = small("broken", *arguments, start_deadline=1.0)
    async with upstreams(broken, small()) as servers:
        assert [each.running for each in servers.shared] == [False, True]
        assert reason in servers.shared[0].trouble
        assert "broken_echo" not in names(await servers.open(provider="gemini", session="s"))


async def test_a_program_that_is_not_there_is_named() -> None:
    async with upstreams(UpstreamSettings(name="none", command=("ostler-no-such-program",))) as servers:
        assert "ostler-no-such-program: No such file or directory" in servers.shared[0].trouble


@pytest.mark.parametrize("handshake", [True, False])
async def test_servers_over_http_in_both_revisions(bridge: Bridge, handshake: bool) -> None:
    """Our own channel is the server: the two ends of the protocol meet."""
    async with running_channel() as channel:
        inner = bridge.open([tool("echo", text={"type": "string"})])
        bridge.publish(inner, [tool("echo")], Echo("inner"), "inner-session")
        entry = channel.open(inner)
        settings = UpstreamSettings(name="far", url=entry.url, headers=entry.headers, handshake=handshake)
        assert "Bearer" not in repr(settings)
        async with upstreams(settings) as servers:
            outer = bridge.open()
            session = await servers.open(provider="gemini", session="s")
            publish(outer, session, [])
            async with relay(outer) as client:
                await client.initialize()
                assert await client.text("far_echo", {"text": "hi"}) == "inner:inner-session:hi"
                bridge.publish(inner, [tool("echo"), tool("more")], Echo("inner"))
                await eventually(lambda: names(session) == ["far_echo", "far_more"], "the tools are listed again")
                publish(outer, session, [])
                await client.notice("notifications/tools/list_changed")
                assert await client.names() == ["far_echo", "far_more"]
                inner.revoke()
                refused = (await client.call("far_echo"))["result"]
                assert refused["isError"]


async def test_f16_a_slow_server_slows_nobody_else(bridge: Bridge) -> None:
    async with upstreams(small()) as servers:
        slow, quick = bridge.open(), bridge.open()
        held = Held("slow")
        publish(slow, (await servers.open(provider="gemini", session="a")), [Offer([tool("own")], held)])
        publish(quick, (await servers.open(provider="gemini", session="b")), [])
        async with relay(slow) as at_a, relay(quick) as at_b:
            await at_a.initialize()
            await at_b.initialize()
            waiting = [at_a.call("small_hold"), at_a.call("own")]
            assert [await at_b.text("small_echo", {"text": str(n)}) for n in range(20)] == [str(n) for n in range(20)]
            assert not any(each.done() for each in waiting)
            held.release.set()
            assert (await waiting[1])["result"]["content"][0]["text"] == "slow:None"


class Scripted:
    """A server of paper: it has the tools that the test gives it, and says what changed when the test says so."""

    def __init__(self) -> None:
        self.names = ["first"]
        self.lists = 0
        self.changed: Callable[[], None] = lambda: None
        self.listed = asyncio.Event()

    @asynccontextmanager
    async def connect(self, _settings: UpstreamSettings, changed: Callable[[], None]) -> AsyncIterator[Remote]:
        self.changed = changed
        yield self

    async def tools(self) -> Sequence[JsonObject]:
        self.lists += 1
        self.listed.set()
        return [tool(name) for name in self.names]

    async def call(self, name: str, call: ToolCall) -> CallResult:
        return CallResult.text(f"{name} for {call.context}")

    async def gone(self) -> str:
        return await asyncio.get_running_loop().create_future()

    async def change(self, *names: str) -> None:
        self.names = list(names)
        self.listed.clear()
        self.changed()
        await soon(self.listed.wait(), "the tools are listed again")
        await asyncio.sleep(0)


@asynccontextmanager
async def scripted() -> AsyncIterator[tuple[Scripted, SessionUpstreams]]:
    server = Scripted()
    running = Upstreams([small()], connect=server.connect)
    await running.start()
    try:
        yield server, await running.open(provider="gemini", session="s")
    finally:
        await running.stop()


async def test_w12_f08_a_change_of_tools_alters_no_publication(bridge: Bridge) -> None:
    async with scripted() as (server, session):
        published, withdrawn, replaced = bridge.open(), bridge.open(), bridge.open()
        for binding in (published, withdrawn, replaced):
            publish(binding, session, [Offer([tool("own")], Echo("A"))], "turn-1")
        bridge.unpublish(withdrawn)
        bridge.publish(replaced, [tool("own")], Echo("new"))
        await server.change("first", "second")
        assert names(session) == ["small_first", "small_second"]
        assert [each["name"] for each in published.definitions] == ["own", "small_first"]
        assert withdrawn.definitions == ()
        assert [each["name"] for each in replaced.definitions] == ["own"]
        assert "turn-1" in text(await published.call("small_first", {}, call_id="1"))


async def test_rf8_a_storm_of_changes_is_a_few_lists() -> None:
    async with scripted() as (server, _):
        await server.change("first", "second")
        for _ in range(1000):
            server.changed()
            await asyncio.sleep(0)
        assert server.lists == 2
        await server.change("first")
        assert server.lists == 3


async def test_a_start_that_is_stopped_at_once_waits_for_nobody() -> None:
    running = Upstreams([small()], connect=Scripted().connect)
    starting = asyncio.create_task(running.start())
    await asyncio.sleep(0)
    await running.shared[0].stop()
    await soon(starting, "the start returns")


async def test_no_servers_need_no_library() -> None:
    async with upstreams() as servers:
        assert names(await servers.open(provider="gemini", session="s")) == []
