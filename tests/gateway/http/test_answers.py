"""One answer, written once: every encoder reads the same list, from any place, and a replay says what was sent live."""

import asyncio
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.gateway.chat.answer import MessageForm, stored_events, stored_message
from ostler.gateway.config.keys import Caller
from ostler.gateway.http import chat_dialect, response_dialect
from ostler.gateway.http.body import ResponseBody
from ostler.gateway.http.chat_dialect import CompletionForm, stored_completion
from ostler.gateway.http.errors import envelope
from ostler.gateway.http.frames import Encoder, EventEncoder
from ostler.gateway.http.request_preparer import Prepared
from ostler.gateway.http.response_dialect import (
    PIECES_KEPT,
    SHAPE,
    ResponseForm,
    public,
    stored_answer,
    stored_response,
)
from ostler.gateway.model.api_error import ApiError
from ostler.gateway.model.ask import Ask
from ostler.gateway.model.outcome import TurnOutcome, TurnStatus, failed
from ostler.gateway.turns.answer import AnswerEvent, AnswerStream, StoredAnswer, stored_items, unread
from ostler.gateway.turns.host_events import HistoryCut, PermissionPending, SeatToolsLost
from ostler.gateway.turns.pending_calls import AskedCall
from ostler.pool.events import (
    AgentEvent,
    MessageDropped,
    Other,
    PermissionAnswered,
    PermissionAsked,
    PermissionOption,
    Plan,
    PlanStep,
    Text,
    Thought,
    ToolEnded,
    ToolStarted,
    ToolStatus,
    ToolUpdated,
    TurnEvent,
    Usage,
)
from ostler.pool.keys import TransportKey
from tests.support.answers import end, say
from tests.support.openai_oracle import judge_items

ASK = Ask(TransportKey("demo", "demo", "/"), (), "question", ())
NAMES = st.sampled_from(["a", "b", "look"])
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(['"delta":""', "\n\n", "\\"])
EVENTS: st.SearchStrategy[TurnEvent] = st.one_of(
    st.builds(Text, WORDS),
    st.builds(Thought, WORDS),
    st.builds(ToolStarted, NAMES, NAMES, st.just("other"), st.none() | WORDS | st.just({"x": 1})),
    st.builds(ToolUpdated, NAMES, st.none() | NAMES),
    st.builds(ToolEnded, NAMES, st.sampled_from(ToolStatus), st.none() | WORDS),
    st.builds(Plan, st.lists(st.builds(PlanStep, WORDS), max_size=2)),
    st.builds(PermissionAsked, NAMES, WORDS, st.just([])),
    st.builds(PermissionAnswered, NAMES, st.none() | st.just(PermissionOption("1", "yes", "allow_once")), NAMES),
    st.builds(PermissionPending, st.just({"id": "mcpr_1", "title": "t", "arguments": "{}"})),
    st.builds(HistoryCut, st.integers(1, 9)),
    st.builds(MessageDropped, WORDS),
    st.builds(SeatToolsLost),
    st.builds(Usage, st.integers(0, 9), st.integers(0, 9)),
    st.builds(Other, NAMES, st.just({})),
)
ENDS = st.sampled_from(
    [
        TurnOutcome(TurnStatus.COMPLETED),
        TurnOutcome(TurnStatus.INCOMPLETE, "max_output_tokens"),
        TurnOutcome(TurnStatus.CANCELLED, "cancelled"),
        failed("agent_error", "it broke"),
    ]
)
RUNS = st.one_of(
    st.lists(st.builds(Text, WORDS), min_size=2, max_size=4),
    st.lists(st.builds(Thought, WORDS), min_size=2, max_size=4),
    st.lists(EVENTS, max_size=3),
)
TURNS = st.lists(RUNS, max_size=8).map(lambda runs: [event for run in runs for event in run])


CALLS = st.lists(st.tuples(NAMES, WORDS, st.booleans()), max_size=2)
Calls = list[tuple[str, str, bool]]


def asked(calls: Calls) -> list[AskedCall]:
    """Calls for the client: a function, or a permission request."""
    loop, question = asyncio.new_event_loop(), PermissionAsked("p", "it", [])
    answer = loop.create_future()
    loop.close()
    return [
        AskedCall(f"call_{place}", name, arguments, answer, permission=question if asks else None)
        for place, (name, arguments, asks) in enumerate(calls)
    ]


def prepared(*, background: bool = False) -> Prepared:
    body = ResponseBody(model="demo", input="question", background=background)
    return Prepared(body, Caller(), "demo", "s", None, (), ASK)


def storing(form: ResponseForm, *, streams: bool) -> Callable[[AnswerStream], StoredAnswer]:
    return partial(stored_response, form, prepared(), streams=streams)


def written(
    events: Sequence[TurnEvent],
    outcome: TurnOutcome,
    stored: Callable[[AnswerStream], StoredAnswer] = unread,
    *,
    queued: bool = False,
    calls: Calls | None = None,
) -> AnswerStream:
    """An answer with these events."""
    answer = AnswerStream("a_1", stored, functions=["look"])
    if queued:
        answer.queue()
    answer.start()
    for event in events:
        answer.take(event)
    answer.close(outcome, asked(calls or []), 12.0)
    answer.publish()
    return answer


def read(answer: AnswerStream, encoder: Encoder, steps: Sequence[int] = ()) -> list[bytes]:
    """All frames, taken so many events at a time."""
    found, place, left = list[bytes](), 0, list(steps)
    while events := answer.since(place):
        taken = events[: left.pop(0)] if left else events
        found += encoder.frames(taken)
        place += len(taken)
    return found


def data_of(frames: Sequence[bytes]) -> list[dict[str, Any]]:
    return [json.loads(frame.partition(b"data: ")[2]) for frame in frames if b"[DONE]" not in frame]


@given(TURNS, ENDS, st.booleans(), st.integers(0, 40), st.lists(st.integers(1, 5), max_size=8), CALLS)
def test_a_stored_response_is_replayed_byte_for_byte(
    events: list[TurnEvent], outcome: TurnOutcome, background: bool, start: int, steps: list[int], calls: Calls
) -> None:
    form = ResponseForm("resp_1", 3, prepared(background=background))
    answer = written(events, outcome, storing(form, streams=True), queued=background, calls=calls)
    live = read(answer, form.encoder(0), steps)
    found = data_of(live)
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    judge_items(found)
    assert read(answer, form.encoder(start)) == live[start:]
    record = storing(form, streams=True)(answer).response
    assert record is not None
    stored = json.loads(json.dumps(record.body))
    assert read(stored_answer(stored), response_dialect.stored_encoder(stored, 0), steps) == live
    assert read(stored_answer(stored), response_dialect.stored_encoder(stored, start)) == live[start:]
    assert public(stored) == found[-1]["response"]


@given(TURNS, ENDS, st.integers(0, 99))
def test_a_response_without_sizes_is_replayed_in_whole_items_and_its_end_gets_the_number_that_is_expected(
    events: list[TurnEvent], outcome: TurnOutcome, start: int
) -> None:
    form = ResponseForm("resp_1", 3, prepared())
    answer = written(events, outcome, storing(form, streams=False))
    record = storing(form, streams=False)(answer).response
    assert record is not None
    assert SHAPE not in record.body
    whole = data_of(read(stored_answer(record.body), response_dialect.stored_encoder(record.body, 0)))
    judge_items(whole)
    rest = data_of(read(stored_answer(record.body), response_dialect.stored_encoder(record.body, start)))
    if start < len(whole):
        assert rest == whole[start:]
    else:
        assert rest == [{**whole[-1], "sequence_number": start}]


def test_the_sizes_of_more_pieces_than_are_kept_are_not_stored() -> None:
    form = ResponseForm("resp_1", 3, prepared())
    for pieces in (PIECES_KEPT, PIECES_KEPT + 1):
        answer = written([Text("x")] * pieces, TurnOutcome(TurnStatus.COMPLETED), storing(form, streams=True))
        record = storing(form, streams=True)(answer).response
        assert record is not None
        assert (SHAPE in record.body) == (pieces <= PIECES_KEPT)


@given(TURNS, ENDS, st.lists(st.integers(1, 5), max_size=8), CALLS)
def test_a_completion_in_chunks_says_what_it_says_as_a_whole(
    events: list[TurnEvent], outcome: TurnOutcome, steps: list[int], calls: Calls
) -> None:
    form = CompletionForm("chatcmpl_1", 3, "demo", read=8, include_usage=True)
    answer = written(events, outcome, chat_dialect.stored_items, calls=calls)
    assert answer.end is not None
    found = form.reply(answer.end)
    document = envelope(found) if isinstance(found, ApiError) else found
    live = read(answer, form.encoder(0), steps)
    told = read(stored_completion(document), chat_dialect.stored_encoder(document, 0, include_usage=True))
    if isinstance(found, ApiError):
        assert told == live[-1:]
        return
    for frames in (live, told):
        chunks = data_of(frames)
        content = "".join(each["delta"].get("content") or "" for chunk in chunks for each in chunk["choices"])
        assert content == (found["choices"][0]["message"]["content"] or "") == answer.text
        assert chunks[-1]["usage"] == found["usage"]
        called = [
            {name: call[name] for name in call if name != "index"}
            for chunk in chunks
            for each in chunk["choices"]
            for call in each["delta"].get("tool_calls", ())
        ]
        assert called == found["choices"][0]["message"].get("tool_calls", [])
    one_piece = [Text(answer.text), *(event for event in events if isinstance(event, Usage))]
    same = written(one_piece if answer.text else one_piece[1:], outcome, calls=calls)
    assert told[:-2] == read(same, form.encoder(0))[:-2], "a replay is the stream of an answer in one piece"


@given(TURNS, ENDS, st.integers(0, 20), st.lists(st.integers(1, 5), max_size=8))
def test_a_session_message_streams_its_text_and_ends_with_all_of_it(
    events: list[TurnEvent], outcome: TurnOutcome, start: int, steps: list[int]
) -> None:
    form = MessageForm("smsg_1", "s", 3, notices=["a new day"], read=8)
    answer = written(events, outcome, stored_items)
    live = read(answer, EventEncoder(form.events), steps)
    found = data_of(live)
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    assert read(answer, EventEncoder(form.events, start)) == live[start:]
    told = {kind: [each for each in found if each["type"] == f"session.message.{kind}"] for kind in ("delta", "item")}
    message = found[-1]["message"]
    assert message["status"] == outcome.status
    assert "".join(each["text"] for each in told["delta"]) == message["text"]
    assert [found[1]["notice"], *(each["item"] for each in told["item"])] == message["items"]
    again = data_of(read(stored_message(message), EventEncoder(stored_events(message))))
    assert [each["type"] for each in (again[0], again[-1])] == [found[0]["type"], found[-1]["type"]]
    assert (again[1]["text"], again[-1]["message"]) == (message["text"], message)


@given(TURNS)
def test_an_answer_that_could_not_be_stored_ends_as_a_failure_with_the_same_items(events: list[TurnEvent]) -> None:
    answer = AnswerStream("a_1")
    answer.start()
    for event in events:
        answer.take(event)
    answer.close(TurnOutcome(TurnStatus.COMPLETED), [], 1.0)
    items = list(answer.items)
    answer.close(failed("storage_error", "no room"), [], 2.0)
    assert answer.end is not None
    assert (answer.end.outcome.code, answer.items) == ("storage_error", items)


def test_nothing_is_told_of_an_end_that_is_not_durable() -> None:
    answer = AnswerStream("a_1")
    with pytest.raises(RuntimeError, match="before it is closed"):
        answer.publish()
    answer.close(TurnOutcome(TurnStatus.COMPLETED), [], 1.0)
    assert list(answer.since(0)) == []
    answer.publish()
    assert answer.closed


def test_who_follows_the_end_hears_of_it_once_after_the_readers_have_it() -> None:
    answer, seen = AnswerStream("a_1"), list[object]()
    answer.on_end.append(lambda told: seen.append((told is answer.end, answer.since(0)[-1] is told)))
    say(answer, "x")
    end(answer)
    assert seen == [(True, True)]


def test_pieces_are_counted_from_the_one_list() -> None:
    answer = AnswerStream("a_1")
    say(answer, "ab", "c")
    answer.take(Thought("de"))
    answer.take(PermissionPending({}))
    answer.take(Thought("f"))
    say(answer, "g")
    assert (answer.text, answer.sizes, answer.count) == ("abcg", [[2, 1], [2, 1], [1]], 3)
    end(answer)
    assert answer.end is not None
    assert (answer.end.text, answer.end.written) == ("abcg", 7)
    assert [item["type"] for item in answer.items] == ["message", "reasoning", "message"]


def test_no_event_that_a_codec_makes_is_one_of_an_answer() -> None:
    assert not {*get_args(AgentEvent)} & {*get_args(AnswerEvent)}


def test_frames_before_the_start_are_counted_and_not_made() -> None:
    answer = AnswerStream("smsg_1")
    say(answer, "a", "b")
    encoder = EventEncoder(MessageForm("smsg_1", "s", 3).events, 1)
    (frame,) = encoder.frames(answer.since(0))
    assert (data_of([frame])[0]["sequence_number"], data_of([frame])[0]["text"]) == (1, "b")
