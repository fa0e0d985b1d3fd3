"""The parts of the API that only compute."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ostler.gateway.config.keys import Caller
from ostler.gateway.http.errors import of_outcome
from ostler.gateway.http.items import read_input
from ostler.gateway.http.limits import CallerLimits, RequestSlot, TooManyRequests
from ostler.gateway.http.prefixes import Prefixes, digest_of
from ostler.gateway.http.session_finder import slug_of
from ostler.gateway.model.api_error import ApiError
from ostler.gateway.model.model_names import Models
from ostler.gateway.turns.activities import named
from ostler.gateway.turns.faults import fault
from ostler.pool.errors import BreakerOpen, PoolError, PoolPaused, PoolSaturated

CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "done"}


def user(text: str) -> dict[str, object]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, object]:
    return {"role": "assistant", "content": text}


def new_id(prefix: str) -> str:
    return f"{prefix}_new"


def test_the_last_run_of_user_messages_is_the_question() -> None:
    said = read_input([user("a"), assistant("b"), user("c"), user("d")], new_id)
    assert [(role, text) for role, text, _ in said.entries] == [("user", "a"), ("assistant", "b")]
    assert said.text == "c\nd"


def test_results_at_the_end_are_results_and_before_a_question_they_are_history() -> None:
    assert [output.call_id for output in read_input([user("a"), CALL, RESULT], new_id).outputs] == ["c1"]
    said = read_input([user("a"), CALL, RESULT, user("b")], new_id)
    assert said.outputs == []
    assert [role for role, _, _ in said.entries] == ["user", "assistant", "tool"]
    assert said.text == "b"


def test_system_and_developer_messages_are_instructions() -> None:
    said = read_input([{"role": "system", "content": "x"}, {"role": "developer", "content": "y"}, user("a")], new_id)
    assert (said.instructions, said.entries) == (["x", "y"], [])


@pytest.mark.parametrize(
    "item",
    [
        {"role": "robot", "content": "x"},
        {"role": "user"},
        {"role": "user", "content": 5},
        {"role": "user", "content": [{"type": "input_text"}]},
        {"role": "user", "content": [{"type": "input_image", "image_url": "https://example.org/a.png"}]},
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,%%"}]},
        {"role": "user", "content": [{"type": "input_file", "file_id": "f"}]},
        {"role": "user", "content": [{"type": "hologram"}]},
        {"type": "web_search_call"},
        {"type": "function_call", "name": "f"},
        {"type": "function_call_output", "call_id": 5, "output": "x"},
        {"type": "function_call_output", "call_id": "c", "output": 5},
    ],
)
def test_z05_a_bad_item_is_a_400_that_names_it(item: dict[str, object]) -> None:
    with pytest.raises(ApiError) as caught:
        read_input([user("a"), item], new_id)
    assert caught.value.status == 400
    assert (caught.value.param or "").startswith("input[1]")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
items = st.dictionaries(st.sampled_from(["type", "role", "content", "call_id", "output", "name"]), json_values)


# A busy machine draws slowly, and that is no fault of the input.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(items, max_size=4))
def test_z05_no_input_is_anything_but_read_or_refused(given_items: list[dict[str, object]]) -> None:
    with suppress(ApiError):
        read_input(given_items, new_id)


@given(json_values)
def test_c21_a_slug_is_a_printable_string_or_refused(value: object) -> None:
    with suppress(ApiError):
        slug = slug_of(value)
        assert slug is None or (1 <= len(slug) <= 256 and slug.isprintable())


def test_however_an_answer_is_cut_the_conversation_is_the_same() -> None:
    whole = read_input([user("a"), assistant("bc"), user("x")], new_id).entries
    cut = read_input([user("a"), assistant("b"), assistant("c"), user("x")], new_id).entries
    assert digest_of(("demo",), whole) == digest_of(("demo",), cut)


@pytest.mark.parametrize(
    "other",
    [[user("A"), assistant("b")], [user("a"), assistant("B")], [user("a")], [user("a"), assistant("b"), CALL, RESULT]],
)
def test_any_divergence_is_another_conversation(other: list[dict[str, object]]) -> None:
    first = digest_of(("demo",), read_input([user("a"), assistant("b"), user("x")], new_id).entries)
    assert digest_of(("demo",), read_input([*other, user("x")], new_id).entries) != first
    assert digest_of(("else",), read_input([user("a"), assistant("b"), user("x")], new_id).entries) != first


def test_prefixes_are_bounded_and_taken_once() -> None:
    prefixes = Prefixes(2)
    for number in range(3):
        prefixes.learn("ann", f"d{number}", f"s{number}")
    assert [prefixes.find("ann", f"d{number}") for number in range(3)] == [None, "s1", "s2"]
    assert prefixes.find("bob", "d1") is None
    prefixes.take("ann", "d1")
    assert prefixes.find("ann", "d1") is None


def test_a_key_has_a_rate_and_a_number_of_requests_at_once() -> None:
    limits, caller = CallerLimits(), Caller("ann", concurrency=2, per_minute=3)
    first, second, third = (RequestSlot(limits, caller, 0.0) for _ in range(3))
    for place in (first, first, second):
        place.take()
    with pytest.raises(TooManyRequests) as at_once:
        third.take()
    assert at_once.value.retry_after == 1
    third.give_back()
    first.give_back()
    third.take()
    for place in (first, second, third):
        place.count()
    with pytest.raises(TooManyRequests) as in_a_minute:
        third.count()
    assert in_a_minute.value.retry_after == 20
    RequestSlot(limits, caller, 20.0).count()
    other = RequestSlot(limits, Caller("bob"), 0.0)
    other.take()
    other.count()


def test_a_model_is_an_alias_a_pair_or_a_provider() -> None:
    called = {"demo": "demo", "gemini": "gemini-acp", "gemini-acp": "gemini-acp"}
    models = Models({"fast": "demo/small", "bad": "nope/x"}, called, "demo/demo", ("demo/big",))
    assert models.resolve("fast") == ("demo", "small")
    assert models.resolve("demo/a/b") == ("demo", "a/b")
    assert models.resolve("demo") == ("demo", "demo")
    assert models.resolve("gemini") == ("gemini-acp", "default")
    assert models.resolve("gemini/flash") == models.resolve("gemini-acp/flash") == ("gemini-acp", "flash")
    assert replace(models, default="fast").resolve("demo") == ("demo", "small")
    assert [models.resolve(name) for name in ("nope/x", "bad", "", "demo/")] == [None] * 4
    assert models.listed() == ["demo/demo", "fast", "demo/big"]


@pytest.mark.parametrize(
    ("title", "found"),
    [
        ("get", True),
        ("mcp__ostler__get", True),
        ("ostler_get", True),
        ("get (ostler MCP Server)", True),
        ("Tool: ostler/get", True),
        ("ostler.get {}", True),
        ("get_weather", False),
        ("forget", False),
        ("small_get", False),
        ("read the file", False),
    ],
)
def test_a_function_is_known_by_its_name_and_not_by_a_part_of_another(title: str, found: bool) -> None:
    pattern = named(["get", "a.b"])
    assert pattern is not None
    assert (pattern.search(title) is not None) is found


def test_without_functions_nothing_is_one() -> None:
    assert named([]) is None


SATURATED = PoolSaturated(what="nobody leaves", census="1 process", retry_after=2.0)
BROKEN = BreakerOpen(provider="demo", retry_after=28.4, last_failure="exit 1")
PAUSED = PoolPaused(key="demo/demo", waited=3.0)


@pytest.mark.parametrize(("error", "status", "seconds"), [(SATURATED, 429, 2), (BROKEN, 503, 29), (PAUSED, 503, 1)])
def test_a_refusal_says_how_long_another_try_is_in_vain(error: PoolError, status: int, seconds: int) -> None:
    told = of_outcome(fault(error))
    assert (told.status, told.retry_after) == (status, seconds)
