"""D19: on the OpenAI API a slash is text, unless the configuration says otherwise."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.served import SESSION, Served, serving, text_of
from tests.support.talks import rows

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def obeying(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """A gateway that takes commands on the OpenAI API."""
    folder = tmp_path_factory.mktemp("obeying") / "data"
    async with serving(folder, gateway__commands_on_openai_api=True) as gateway:
        yield gateway


async def asked(served: Served, text: str, **fields: Any) -> tuple[str, str]:
    """(session, answer) of a request that must be good."""
    answer = await served.ask(text, **fields)
    assert answer.status_code == 200, answer.text
    return answer.headers[SESSION], text_of(answer.json())


@pytest.mark.parametrize("command", ["/new", "/undo", "/resume x"])
async def test_d19_rd1_a_slash_is_text(served: Served, command: str) -> None:
    slug = f"text {command}"
    session, _ = await asked(served, "u1", conversation=slug)
    assert await asked(served, command, conversation=slug) == (session, f"echo: {command}")
    assert served.prompts()[-1] == command
    assert rows(served, session) == ["u1", "echo: u1", command, f"echo: {command}"]


async def test_d19_by_configuration_commands_act(obeying: Served) -> None:
    first, _ = await asked(obeying, "u1", conversation="acts")
    await asked(obeying, "u2", conversation="acts")
    session, said = await asked(obeying, "/undo", conversation="acts")
    assert (session, "u2" in said) == (first, True)
    assert (await asked(obeying, "!recall", conversation="acts"))[1] == "u1"
    assert "/compress" not in "".join(obeying.prompts())
    moved, _ = await asked(obeying, "/new", conversation="acts")
    assert moved != first
    session, said = await asked(obeying, "anew\n!recall", conversation="acts")
    assert (session, "u1" in said) == (moved, False)
    assert await asked(obeying, f"/resume {first}", conversation="acts") == (
        first,
        f"You are back in {first}, with 2 messages of yours.",
    )
    assert (await asked(obeying, "!recall", conversation="acts"))[0] == first


async def test_d19_going_on_from_a_commands_response_is_going_on_where_it_led(obeying: Served) -> None:
    first = (await obeying.ask("u1\n!recall")).json()
    again = (await obeying.ask("/retry", previous_response_id=first["id"])).json()
    assert text_of(again) == text_of(first)
    fresh = (await obeying.ask("/new", previous_response_id=again["id"])).json()
    last = (await obeying.ask("anew\n!recall", previous_response_id=fresh["id"])).json()
    assert "u1" not in text_of(last)
    listed = await obeying.http.get(f"/v1/responses/{fresh['id']}")
    assert listed.json()["output"] == fresh["output"]


async def test_d19_commands_stream_and_unknown_ones_name_the_nearest(obeying: Served) -> None:
    events = await obeying.stream("/hlep", conversation="streams")
    assert events[-1]["type"] == "response.completed"
    assert "/help" in text_of(events[-1]["response"])
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    chat = await obeying.http.post(
        "/v1/chat/completions", json={"model": "demo", "messages": [{"role": "user", "content": "/status"}]}
    )
    assert "No session yet" in chat.json()["choices"][0]["message"]["content"]
    assert obeying.prompts()[-1] != "/status"


async def test_commands_at_once_are_done_one_after_another(obeying: Served) -> None:
    first, _ = await asked(obeying, "u1", conversation="crowded")
    moved = await asyncio.gather(*(asked(obeying, "/new", conversation="crowded") for _ in range(4)))
    sessions = [session for session, _ in moved]
    assert len({first, *sessions}) == 5
    query = "select id from sessions where ended_at is null and id in (?, ?, ?, ?, ?)"
    ((alive,),) = obeying.rows(query, first, *sessions)
    assert (await asked(obeying, "u2", conversation="crowded"))[0] == alive
