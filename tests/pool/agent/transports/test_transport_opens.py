"""Sessions coming to be: one after another where they must, ready when they say so, never lost."""

import asyncio
import contextlib
import dataclasses
from pathlib import Path

import pytest

from ostler.pool.agent.codec import ToolWanted
from ostler.pool.agent.session import AgentSession
from ostler.pool.agent.transport import Transport
from ostler.pool.errors import AgentStartFailed, LoadRefused, Phase, TransportLost, UnknownSession
from ostler.pool.launch.settings import ProviderSettings
from ostler.pool.order import SessionMemo
from ostler.pool.permission import ask
from ostler.pool.prompt import TextPart
from ostler.pool.provider import NEVER, CloseVerb, LoadTrust, Sharing
from ostler.pool.providers.demo import PROVIDER as DEMO
from ostler.process import ProcessSupervisor
from ostler.process.errors import Blind
from ostler.process.reaper.proc import Stat
from ostler.process.reaper.signals import ProcessTree
from tests.support.tickets import PlainTicket
from tests.support.transport_harness import SCRIPTED, TransportHarness, say
from tests.support.waiting import eventually

# Answers each open after a moment and says how many were asked for at once.
COUNTS_OPENS = """
import collections
waiting, most, number = 0, 0, 0
def later(frame):
    global waiting
    time.sleep(0.05)
    waiting -= 1
    answer(frame, {"sessionId": f"n{frame['id']}"})
for method, frame, session in frames("session/new"):
    if method == "session/new":
        waiting += 1; most = max(most, waiting)
        threading.Thread(target=later, args=(frame,)).start()
    else:
        text(session, str(most)); done(frame)
"""


@pytest.mark.parametrize(("width", "most"), [(1, "1"), (3, "3")])
async def test_m01_opens_on_one_home_are_as_parallel_as_declared(
    harness: TransportHarness, width: int, most: str
) -> None:
    provider = dataclasses.replace(SCRIPTED, parallel_opens=width)
    transport = await harness.scripted(COUNTS_OPENS, provider=provider)
    sessions = await asyncio.gather(*(transport.open(harness.order()) for _ in range(6)))
    assert len({session.id for session in sessions}) == 6
    assert await say(sessions[0], "x") == most


async def test_m01_two_processes_of_one_home_share_the_gate(harness: TransportHarness) -> None:
    provider = dataclasses.replace(SCRIPTED, parallel_opens=1)
    first, second = [await harness.scripted(COUNTS_OPENS, provider=provider) for _ in range(2)]
    gate = harness.per_home.opens(provider, str(harness.folder))
    async with gate:
        opens = [asyncio.create_task(each.open(harness.order())) for each in (first, second)]
        for _ in range(20):  # an open that finds no gate asks its agent after three
            await asyncio.sleep(0)
        assert [each.sessions for each in (first, second)] == [1, 1]
        assert [each.connection.pending for each in (first, second)] == [0, 0]
    assert len(await asyncio.gather(*opens)) == 2


async def test_m01_a_load_is_made_when_its_agent_has_answered_not_when_its_tools_are_there(
    harness: TransportHarness,
) -> None:
    transport = await harness.scripted("""
for method, frame, session in frames("session/load"):
    if method == "session/load":
        text(frame["params"]["sessionId"], "what was said"); answer(frame, {})
""")
    ticket, made = PlainTicket("secret"), asyncio.Event()
    loading = asyncio.create_task(
        transport.load(SessionMemo("old", str(harness.folder), 0.0, 0.0), harness.order(ticket=ticket), made.set)
    )
    await made.wait()
    assert not loading.done()
    ticket.ready.set()
    await loading


async def test_w38a_a_pending_permission_does_not_hold_up_an_open(harness: TransportHarness) -> None:
    transport = await harness.demo()
    asked = asyncio.Event()

    async def person(_session: str, _asked: object) -> str | None:
        asked.set()
        await asyncio.Event().wait()
        return None

    waiting = await transport.open(harness.order(ask(person, deadline=3600)))
    turn = await waiting.prompt([TextPart("!ask x")])
    await asked.wait()
    async with asyncio.timeout(300):
        other = await transport.open(harness.order())
    assert await say(other, "hello") == "echo: hello"
    turn.cancel()
    await turn.ended()


async def test_wm8_a_session_is_ready_when_its_tools_are(harness: TransportHarness) -> None:
    transport = await harness.scripted("for _ in frames(): pass")
    ticket = PlainTicket("secret")
    opening = asyncio.create_task(transport.open(harness.order(ticket=ticket)))
    # The session that the agent has made, and the open that goes on.
    await eventually(lambda: transport.sessions == 2)
    assert not opening.done()
    ticket.ready.set()
    session = await opening
    assert ticket.owners == [transport.identity]
    assert session.sealed is None


async def test_wm8_tools_that_never_come_fail_the_open_and_end_the_session(harness: TransportHarness) -> None:
    transport = await harness.scripted("for _ in frames(): pass", tools=0.1)
    with pytest.raises(AgentStartFailed, match="did not connect to its tools") as caught:
        await transport.open(harness.order(ticket=PlainTicket("secret")))
    assert caught.value.phase is Phase.TOOLS
    assert (transport.sessions, transport.leaked) == (0, 0)


async def test_an_update_in_the_same_breath_as_the_open_finds_its_session(harness: TransportHarness) -> None:
    script = """
for method, frame, session in frames("session/new"):
    both = [{"jsonrpc": "2.0", "id": frame["id"], "result": {"sessionId": "s"}},
            {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update":
             {"sessionUpdate": "available_commands_update", "availableCommands": []}}}]
    sys.stdout.write("".join(json.dumps(each) + "\\n" for each in both)); sys.stdout.flush()
"""
    transport = await harness.scripted(script)
    session = await transport.open(harness.order())
    await eventually(lambda: session.late)
    assert transport.strays == 0


async def test_wm5_an_open_that_is_given_up_is_carried_through_and_closed(harness: TransportHarness) -> None:
    transport = await harness.demo("--slow-session-new", "0.2")
    opening = asyncio.create_task(transport.open(harness.order()))
    await eventually(lambda: harness.asked("session/new"))
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await eventually(lambda: harness.asked("session/close"))
    await eventually(lambda: not transport.sessions)
    assert transport.leaked == 0


async def test_w33b_an_open_that_is_never_answered_is_counted(harness: TransportHarness) -> None:
    transport = await harness.scripted("for _ in frames('session/new'): pass", session_open=0.1)
    with pytest.raises(AgentStartFailed, match="did not answer session/new"):
        await transport.open(harness.order())
    assert (transport.sessions, transport.leaked) == (0, 1)


async def test_an_id_given_twice_is_no_session(harness: TransportHarness) -> None:
    script = """
for method, frame, session in frames("session/new"):
    answer(frame, {"sessionId": "same"})
"""
    transport = await harness.scripted(script)
    await transport.open(harness.order())
    with pytest.raises(AgentStartFailed, match="another live session"):
        await transport.open(harness.order())


async def test_m05_a_close_is_believed_only_where_it_is_offered(harness: TransportHarness) -> None:
    closing, keeping = await harness.demo(), await harness.demo("--no-close")
    assert await (await closing.open(harness.order())).close() is True
    session = await keeping.open(harness.order())
    assert await session.close() is False
    assert await session.close() is False
    assert (closing.leaked, keeping.leaked, keeping.sessions) == (0, 1, 0)


async def test_a_close_ends_the_running_turn(harness: TransportHarness) -> None:
    session = await (await harness.demo()).open(harness.order())
    turn = await session.prompt([TextPart("!sleep 30")])
    assert await session.close() is True
    assert turn.finished is not None


async def test_w28b_a_load_in_another_directory_is_never_asked_for(harness: TransportHarness) -> None:
    transport = await harness.demo()
    session = await transport.open(harness.order())
    elsewhere = dataclasses.replace(harness.order(), cwd="/")
    with pytest.raises(LoadRefused, match="split"):
        await (await harness.demo()).load(session.memo, elsewhere)
    assert not any(frame.get("method") == "session/load" for frame in harness.frames())


async def test_w03a_a_session_is_not_loaded_twice_on_one_process(harness: TransportHarness) -> None:
    transport = await harness.demo()
    session = await transport.open(harness.order())
    with pytest.raises(LoadRefused, match="open on this very process"):
        await transport.load(session.memo, harness.order())


async def test_w03a_of_two_loads_at_once_on_one_process_one_is_refused(harness: TransportHarness) -> None:
    writer = await harness.demo()
    session = await writer.open(harness.order())
    await say(session, "mark-one")
    await writer.close()
    transport = await harness.demo("--slow-session-new", "0.1")
    loads = [transport.load(session.memo, harness.order()) for _ in range(2)]
    loaded, refused = await asyncio.gather(*loads, return_exceptions=True)
    assert isinstance(loaded, AgentSession)
    assert isinstance(refused, LoadRefused)
    assert transport.sessions == 1
    assert await say(loaded, "!recall") == "mark-one"


class BlindKeeper(ProcessSupervisor):
    """Cannot look at who is left."""

    async def end(self, tree: ProcessTree, *, grace: float, bound: float, closely: bool = False) -> list[Stat]:
        await super().end(tree, grace=grace, bound=bound, closely=closely)
        raise Blind("no descriptors")


async def test_w32_a_session_has_ended_with_its_process_though_nobody_can_see_who_is_left_of_it(
    harness: TransportHarness, tmp_path: Path
) -> None:
    provider = dataclasses.replace(DEMO, close=CloseVerb.KILL, load=NEVER, sharing=Sharing.NONE, seats_per_process=1)
    supervisor = await BlindKeeper.open(tmp_path / "blind", "test")
    transport = await Transport.start(
        harness.plan(provider, ProviderSettings()), supervisor=supervisor, per_home=harness.per_home
    )
    session = await transport.open(harness.order())
    assert await session.close() is True
    assert (transport.leaked, transport.lost is not None) == (0, True)
    await supervisor.aclose()


async def test_m02_a_load_too_early_says_when(harness: TransportHarness) -> None:
    provider = dataclasses.replace(SCRIPTED, load=LoadTrust(next_minute=True, repeats=False))
    script = "for method, frame, session in frames(): answer(frame, {})"
    memo = (await (await harness.scripted(script, provider=provider)).open(harness.order())).memo
    transport = await harness.scripted(script, provider=provider)
    with pytest.raises(LoadRefused) as caught:
        await transport.load(memo, harness.order())
    assert caught.value.ready_at == memo.opened_at // 60 * 60 + 60
    harness.now = caught.value.ready_at
    assert (await transport.load(memo, harness.order())).id == memo.session_id


async def test_w41e_an_agent_that_cannot_load_is_not_asked_to(harness: TransportHarness) -> None:
    memo = (await (await harness.demo()).open(harness.order())).memo
    with pytest.raises(LoadRefused):
        await (await harness.demo("--no-load")).load(memo, harness.order())
    never = dataclasses.replace(SCRIPTED, load=NEVER)
    with pytest.raises(LoadRefused):
        await (await harness.scripted("for _ in frames(): pass", provider=never)).load(memo, harness.order())


async def test_a_load_of_what_the_agent_does_not_know(harness: TransportHarness) -> None:
    provider = dataclasses.replace(SCRIPTED)
    script = "for method, frame, session in frames(): refuse(frame, -32002, 'Resource not found')"
    memo = (await (await harness.demo()).open(harness.order())).memo
    transport = await harness.scripted(script, provider=provider)
    with pytest.raises(UnknownSession):
        await transport.load(memo, harness.order())
    assert transport.sessions == 0


async def test_wm1_an_open_at_the_gate_learns_that_the_process_was_ended(harness: TransportHarness) -> None:
    transport = await harness.demo()
    async with contextlib.AsyncExitStack() as others:
        for _ in range(transport.provider.parallel_opens):
            await others.enter_async_context(harness.per_home.opens(transport.provider, transport.launch.home))
        opening = asyncio.create_task(transport.open(harness.order()))
        await eventually(lambda: transport.sessions == 1)
        await transport.close()
        with pytest.raises(TransportLost):
            await opening


async def test_a_tool_call_that_is_dropped_before_its_first_step_is_answered_once(harness: TransportHarness) -> None:
    transport = await harness.demo()
    session = await transport.open(harness.order())
    session.tool("asked", ToolWanted(session.id, "c", "echo", {}))
    session.seal("its turn ended in the same read")
    assert await transport.probe()
    answers = [frame for frame in harness.frames() if frame.get("id") == "asked"]
    assert ["was not completed" in answer["error"]["message"] for answer in answers] == [True]
