"""Tools, belts and offers, without a socket."""

import asyncio
import contextvars
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest

from ostler.bridge import tools
from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.context import ambient_for
from ostler.bridge.errors import DuplicateTool
from ostler.bridge.offer import Offer, combined
from ostler.bridge.results import Audio, Image, Resource, ResultRefused, result_of
from ostler.bridge.schema import SignatureRefused
from ostler.bridge.session_facts import SessionFacts
from ostler.bridge.threads import Threads
from ostler.bridge.tool import Tool, ToolContext, ToolError, tool
from ostler.bridge.toolbelt import Toolbelt
from ostler.bridge.tools.session_info import session_info


@pytest.fixture
def threads() -> Threads:
    return Threads(4, share=2)


class Ear:
    """Hears progress and log of a call."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self.heard.append((progress, total, message))

    def log(self, level: str, data: object, logger: str | None = None) -> None:
        self.heard.append((level, data, logger))


def call(name: str, context: object = None, ear: Ear | None = None, **arguments: Any) -> ToolCall:
    ear = ear or Ear()
    return ToolCall(name, arguments, "call-1", context, ear.progress, ear.log)


def text(result: CallResult) -> str:
    said: str = result.content[0]["text"]
    return said


@dataclass(frozen=True)
class Weather:
    city: str
    degrees: float


async def test_async_and_sync_functions_answer_alike(threads: Threads) -> None:
    @tool
    async def aloud(word: str) -> str:
        """Says it."""
        return word.upper()

    @tool(name="in_thread")
    def quiet(word: str) -> str:
        """Says it from a thread."""
        return f"{word.upper()} {threading.current_thread() is threading.main_thread()}"

    belt = Toolbelt([aloud, quiet], threads=threads)
    assert [each["name"] for each in belt.offer.definitions] == ["aloud", "in_thread"]
    assert belt.offer.definitions[0]["description"] == "Says it."
    assert text(await belt(call("aloud", word="hi"))) == "HI"
    assert text(await belt(call("in_thread", word="hi"))) == "HI False"
    assert (await belt(call("nothing"))).is_error


async def test_wrong_arguments_are_advice_and_the_function_is_not_run(threads: Threads) -> None:
    ran = False

    @tool
    async def careful(count: int) -> None:
        nonlocal ran
        ran = True

    refused = await Toolbelt([careful], threads=threads)(call("careful", count="three", more=1))
    assert refused.is_error
    assert text(refused).splitlines() == [
        "careful was not run, its arguments are not right:",
        '- count: expected integer, got string "three"',
        "- more: unknown, got integer; known here: count",
    ]
    assert not ran


async def test_the_context_reaches_the_function_and_speaks_for_the_call(threads: Threads) -> None:
    @tool
    def busy(context: ToolContext) -> str:
        context.progress(1, 2, "half")
        context.log("info", {"step": 1})
        return f"{context.session} {context.call_id} {context.service(Weather).city}"

    ear = Ear()
    belt = Toolbelt([busy], threads=threads, services={Weather: Weather("Basel", 3)})
    assert text(await belt(call("busy", "session-a", ear))) == "session-a call-1 Basel"
    assert ear.heard == [(1, 2, "half"), ("info", {"step": 1}, None)]
    assert "properties" in belt.offer.definitions[0]["inputSchema"]
    assert belt.offer.definitions[0]["inputSchema"]["properties"] == {}


async def test_a_service_that_is_not_there_is_a_tool_error(threads: Threads) -> None:
    @tool
    async def wants(context: ToolContext) -> str:
        return context.service(Weather).city

    refused = await Toolbelt([wants], threads=threads)(call("wants"))
    assert refused == CallResult.error("this gateway has no Weather")


async def test_b24_the_context_of_the_call_beats_the_ambient_one(threads: Threads) -> None:
    belt = Toolbelt([session_info], threads=threads)
    own, other = SessionFacts(session_id="own"), SessionFacts(session_id="other", title="Other")
    asking = asyncio.create_task(belt(call("session_info", own)), context=ambient_for(other))
    assert (await asking).structured == {"session_id": "own"}
    asking = asyncio.create_task(belt(call("session_info")), context=ambient_for(other))
    assert (await asking).structured == {"session_id": "other", "title": "Other"}


async def test_b24_without_any_context_it_is_an_error_and_never_some_session(threads: Threads) -> None:
    belt = Toolbelt([session_info], threads=threads)
    await belt(call("session_info", SessionFacts(session_id="a")))
    await belt(call("session_info", SessionFacts(session_id="b")))
    with pytest.raises(LookupError, match="no tool call is running"):
        await belt(call("session_info"))


async def test_a_context_that_says_nothing_about_itself_is_a_tool_error(threads: Threads) -> None:
    assert (await Toolbelt([session_info], threads=threads)(call("session_info", object()))).is_error


async def test_a_thread_gets_a_copy_of_the_callers_context(threads: Threads) -> None:
    whose = contextvars.ContextVar("whose", default="nobody's")

    @tool
    def look() -> str:
        seen = whose.get()
        whose.set("the thread's")
        return seen

    belt = Toolbelt([look], threads=threads)
    whose.set("the caller's")
    assert text(await belt(call("look"))) == "the caller's"
    assert whose.get() == "the caller's"


@pytest.mark.parametrize("is_async", [True, False])
async def test_leaving_is_an_answer(threads: Threads, is_async: bool) -> None:
    def leave() -> NoReturn:
        sys.exit(3)

    async def leave_async() -> NoReturn:
        sys.exit(3)

    leaving = Tool.of(leave_async if is_async else leave, name="leave")
    refused = await Toolbelt([leaving], threads=threads)(call("leave"))
    assert refused == CallResult.error("the tool tried to end the process (exit code 3)")


async def test_an_exception_that_a_future_cannot_hold_comes_through(threads: Threads) -> None:
    @tool
    def stop() -> None:
        raise StopIteration("enough")

    with pytest.raises(RuntimeError, match="raised StopIteration"):
        await Toolbelt([stop], threads=threads)(call("stop"))


async def test_a_tool_that_cancels_its_own_work_is_answered(threads: Threads) -> None:
    @tool
    async def fickle() -> None:
        inner = asyncio.create_task(asyncio.Event().wait())
        inner.cancel()
        await inner

    assert await Toolbelt([fickle], threads=threads)(call("fickle")) == CallResult.error(
        "the tool's own work was cancelled"
    )


async def test_words_for_the_model_are_redacted(threads: Threads) -> None:
    @tool
    async def chatty() -> None:
        raise ToolError("refused by http://me:secret@host with Bearer abcdefghij")

    said = text(await Toolbelt([chatty], threads=threads)(call("chatty")))
    assert "secret" not in said
    assert "abcdefghij" not in said


async def test_an_async_tool_that_overruns_is_stopped(threads: Threads) -> None:
    ended = asyncio.Event()

    @tool(timeout=0.01)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    stopped = await Toolbelt([slow], threads=threads)(call("slow"))
    assert stopped == CallResult.error("slow did not finish within 0.01 s and was stopped")
    await ended.wait()


async def test_a_thread_that_overruns_keeps_its_place_until_it_is_back(threads: Threads) -> None:
    gate = threading.Event()

    @tool(timeout=0.05, concurrency=1)
    def stuck(wait: bool) -> str:
        if wait:
            gate.wait()
        return "back"

    belt, neighbour = Toolbelt([stuck], threads=threads), Toolbelt([stuck], threads=threads)
    assert "did not finish" in text(await belt(call("stuck", wait=True)))
    assert "1 calls of stuck are running in this session" in text(await belt(call("stuck", wait=False)))
    assert text(await neighbour(call("stuck", wait=False))) == "back"
    gate.set()
    while "running in this session" in text(await belt(call("stuck", wait=False))):
        pass


async def test_calls_beyond_the_limit_wait_their_turn(threads: Threads) -> None:
    running = most = 0

    @tool(concurrency=2)
    async def counted() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    belt = Toolbelt([counted], threads=threads)
    results = await asyncio.gather(*(belt(call("counted")) for _ in range(20)))
    assert not any(each.is_error for each in results)
    assert most == 2


async def test_a_cancelled_call_stops_its_async_tool(threads: Threads) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def waits() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    asking = asyncio.create_task(Toolbelt([waits], threads=threads)(call("waits")))
    await started.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await ended.wait()


@pytest.mark.parametrize(
    ("value", "content", "structured"),
    [
        ("words", [{"type": "text", "text": "words"}], None),
        (None, [{"type": "text", "text": "done"}], None),
        (7, [{"type": "text", "text": "7"}], None),
        ([], [{"type": "text", "text": "[]"}], None),
        (["a", 1], [{"type": "text", "text": '["a",1]'}], None),
        ({"a": 1}, [{"type": "text", "text": '{"a":1}'}], {"a": 1}),
        (
            Weather("Basel", 3.5),
            [{"type": "text", "text": '{"city":"Basel","degrees":3.5}'}],
            {"city": "Basel", "degrees": 3.5},
        ),
        (Image(b"\x89P", "image/png"), [{"type": "image", "data": "iVA=", "mimeType": "image/png"}], None),
        (Audio(b"ab", "audio/wav"), [{"type": "audio", "data": "YWI=", "mimeType": "audio/wav"}], None),
        (
            Resource("note://1", "text", "text/plain"),
            [{"type": "resource", "resource": {"uri": "note://1", "mimeType": "text/plain", "text": "text"}}],
            None,
        ),
        (Resource("f://1", b"ab"), [{"type": "resource", "resource": {"uri": "f://1", "blob": "YWI="}}], None),
        (
            ["look:", Image(b"a", "image/png")],
            [{"type": "text", "text": "look:"}, {"type": "image", "data": "YQ==", "mimeType": "image/png"}],
            None,
        ),
    ],
)
def test_results(value: object, content: list[object], structured: object) -> None:
    result = result_of(value, 1000)
    assert (list(result.content), result.structured, result.is_error) == (content, structured, False)


def test_a_ready_result_passes_through() -> None:
    ready = CallResult.error("no")
    assert result_of(ready, 1000) == ready


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(ResultRefused, match="not a result"):
        result_of(object(), 1000)


def test_long_text_is_cut_with_a_mark() -> None:
    assert text(result_of("x" * 25, 10)) == "x" * 10 + "\n[truncated: 10 of 25 characters shown, the limit is 10]"
    assert text(result_of("x" * 10, 10)) == "x" * 10


def test_the_limit_is_for_all_blocks_together() -> None:
    both = CallResult(({"type": "text", "text": "x" * 8}, {"type": "text", "text": "y" * 8}))
    first, second = result_of(both, 10).content
    assert first["text"] == "x" * 8
    assert second["text"].startswith("yy\n[truncated: 2 of 8 characters")


def test_structured_content_goes_when_it_is_far_too_long() -> None:
    assert result_of({"a": "x" * 1000}, 10).structured is None


def test_half_a_resource_is_not_shown() -> None:
    assert text(result_of(Resource("f://1", "x" * 50), 10)) == "[left out: resource of 50 bytes, the limit is 10]"
    assert "left out: image" in text(result_of(Image(bytes(7 * 1024 * 1024), "image/png"), 10))


def test_offers_stand_side_by_side() -> None:
    async def never(_: ToolCall) -> NoReturn:
        raise AssertionError

    one, two = Offer([{"name": "a"}], never), Offer([{"name": "a"}], never)
    with pytest.raises(DuplicateTool):
        combined([one, two])


async def test_each_offer_answers_its_own_names() -> None:
    def answering(word: str) -> Offer:
        async def answer(_: ToolCall) -> CallResult:
            return CallResult.text(word)

        return Offer([{"name": word}], answer)

    offer = combined([answering("a"), answering("b")])
    assert [each["name"] for each in offer.definitions] == ["a", "b"]
    assert text(await offer.dispatcher(call("b"))) == "b"
    assert (await offer.dispatcher(call("c"))).is_error


def test_names_that_no_model_may_call_are_refused() -> None:
    def function() -> None: ...

    for name in ("with space", "x" * 65, "dots.are.out"):
        with pytest.raises(SignatureRefused):
            Tool.of(function, name=name)
    with pytest.raises(DuplicateTool):
        Toolbelt([Tool.of(function), Tool.of(function)], threads=Threads(1))


def test_load_finds_the_built_in_tools() -> None:
    files = {path.stem for path in Path(tools.__file__).parent.glob("*.py")} - {"__init__"}
    assert len(tools.load(plugins=())) == len(files)
    assert session_info in tools.load(plugins=())
    assert session_info in tools.load()


@pytest.fixture
def plugin() -> Iterator[ModuleType]:
    module = ModuleType("ostler_test_plugin")
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def test_load_finds_plugins_and_names_the_broken(plugin: ModuleType) -> None:
    def extra() -> None: ...

    vars(plugin)["TOOL"], vars(plugin)["OTHER"] = Tool.of(extra), "not a tool"

    def entry(attribute: str) -> EntryPoint:
        return EntryPoint("extra", f"{plugin.__name__}:{attribute}", tools.GROUP)

    ours = [each.name for each in tools.load(plugins=())]
    assert [each.name for each in tools.load([entry("TOOL")])] == [*ours, "extra"]
    with pytest.raises(tools.ToolNotLoaded, match=r"found str"):
        tools.load([entry("OTHER")])
    with pytest.raises(tools.ToolNotLoaded, match=r"AttributeError"):
        tools.load([entry("MISSING")])
    with pytest.raises(DuplicateTool):
        tools.load([entry("TOOL"), entry("TOOL")])
