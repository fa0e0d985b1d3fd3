"""What a session's agent gets: who a name belongs to, and what a source and its tools may know."""

from collections.abc import Sequence

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.offer import Offer
from ostler.bridge.session_facts import SessionFacts
from ostler.bridge.tool import Tool, ToolContext
from ostler.gateway.model.session_context import SessionContext
from ostler.gateway.turns.toolset import NOTHING, ToolsetFactory

CLIENTS = {"name": "clients", "inputSchema": {"type": "object"}}


class Notes:
    """A service of a tool."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str]] = []


async def note(text: str, context: ToolContext) -> str:
    """Takes a note."""
    session = context.session
    assert isinstance(session, SessionContext)
    context.service(Notes).taken.append((session.facts.session_id, text))
    return f"noted for {session.owner}"


def source(session: SessionContext) -> Sequence[Tool]:
    """Only some owners get it."""
    return [Tool.of(note), Tool.of(note, name="clients")] if session.owner == "alice" else []


def context_of(owner: str, session_id: str = "s1") -> SessionContext:
    return SessionContext(SessionFacts(session_id=session_id, provider="demo"), owner)


async def parked(call: ToolCall, /) -> CallResult:
    return CallResult.text(f"parked {call.name}")


async def call(kit: Offer, name: str, context: SessionContext) -> str:
    given = {"text": "hi"} if name == "note" else {}
    result = await kit.dispatcher(ToolCall(name, given, "1", context, lambda *_: None, lambda *_: None))
    return str(result.content[0]["text"])


async def test_a_source_yields_tools_for_a_session_and_calls_know_it() -> None:
    notes = Notes()
    toolsets = ToolsetFactory([source], wanted=["*"], services={Notes: notes})
    context = context_of("alice", "s7")
    kit = (await toolsets.session_tools(context, remembered=True)).kit(Offer([CLIENTS], parked), lambda: None, 60)
    assert [each["name"] for each in kit.definitions] == ["clients", "note"]
    assert await call(kit, "note", context) == "noted for alice"
    assert await call(kit, "clients", context) == "parked clients"
    assert notes.taken == [("s7", "hi")]


async def test_a_session_without_tools_of_ours_has_its_clients_only() -> None:
    functions = Offer([CLIENTS], parked)
    for toolsets in (ToolsetFactory([source], wanted=["other_*"]), ToolsetFactory([source]), ToolsetFactory()):
        tools = await toolsets.session_tools(context_of("alice"), remembered=True)
        assert tools is NOTHING
        assert tools.kit(functions, lambda: None, 60) is functions
    assert await ToolsetFactory([source], wanted=["*"]).session_tools(context_of("bob"), remembered=True) is NOTHING
