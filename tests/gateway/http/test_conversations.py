"""Conversations as objects, and the models."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

import pytest

from tests.support.served import SESSION, Served, serving, text_of

if TYPE_CHECKING:
    import openai


@pytest.fixture
async def client(served: Served) -> AsyncIterator[openai.AsyncOpenAI]:
    import openai

    made = openai.AsyncOpenAI(
        base_url=f"{served.base}/v1", api_key="unused", max_retries=0, _strict_response_validation=True
    )
    async with made:
        yield made


async def test_a_conversation_is_made_used_changed_and_deleted(client: openai.AsyncOpenAI) -> None:
    from openai import NotFoundError

    made = await client.conversations.create(
        metadata={"topic": "fruit"}, items=[{"type": "message", "role": "user", "content": "apple"}]
    )
    answer = await client.responses.create(model="demo", input="!recall", conversation=made.id)
    assert answer.output_text == "apple"
    changed = await client.conversations.update(made.id, metadata={"topic": "trees"})
    assert changed.metadata == {"topic": "trees"}
    assert (await client.conversations.retrieve(made.id)).metadata == {"topic": "trees"}
    assert (await client.conversations.delete(made.id)).deleted
    with pytest.raises(NotFoundError):
        await client.conversations.retrieve(made.id)


async def test_items_are_listed_in_order_and_by_page(client: openai.AsyncOpenAI, served: Served) -> None:
    for word in ("apple", "pear", "plum"):
        await served.say(word, conversation="fruit")
    listed = [item async for item in client.conversations.items.list("fruit", order="asc", limit=2)]
    said = [part.text for item in listed if item.type == "message" for part in item.content if "text" in part.type]  # type: ignore[union-attr] # texts only
    assert said == ["apple", "echo: apple", "pear", "echo: pear", "plum", "echo: plum"]
    ids = [item.id for item in listed]
    assert len(set(ids)) == 6
    one = await client.conversations.items.retrieve(str(ids[2]), conversation_id="fruit")
    assert one.id == ids[2]


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_items_that_a_client_gives_one_id_are_all_listed_once(
    client: openai.AsyncOpenAI, served: Served, order: Literal["asc", "desc"]
) -> None:
    twice = [{"type": "message", "id": "mine", "role": role, "content": "one"} for role in ("user", "assistant")]
    question = {"type": "message", "id": "mine", "role": "user", "content": "two"}
    first = await served.ask([*twice, question], conversation="x")
    await served.ask([*twice, {**question, "content": "three"}], conversation="x")
    await served.http.post("/v1/conversations/x/items", json={"items": [{**question, "content": "four"}] * 2})
    ids = []
    async for item in client.conversations.items.list("x", order=order, limit=1):
        ids.append(item.id)
        assert len(ids) <= 11
    assert len(ids) == len(set(ids)) == 10
    listed = []
    async for given in client.responses.input_items.list(first.json()["id"], order=order, limit=1):
        listed.append(given.id)
        assert len(listed) <= 3
    assert len(set(listed)) == 3


@pytest.mark.parametrize("slug", ["a:b", "a/b", "ä ö", "items"])
async def test_a_slug_is_addressable_whatever_is_in_it(served: Served, slug: str) -> None:
    answer = await served.ask("hi", conversation=slug)
    path = f"/v1/conversations/{quote(slug, safe='')}"
    found = await served.http.get(path)
    assert found.json()["id"] == slug
    items = await served.http.get(f"{path}/items", params={"order": "asc"})
    assert [item["role"] for item in items.json()["data"]] == ["user", "assistant"]
    assert items.json()["data"][1] == answer.json()["output"][0]


async def test_models_are_listed_and_resolved(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", models__fast="demo/small") as served:
        listed = (await served.http.get("/v1/models")).json()["data"]
        assert [model["id"] for model in listed] == ["demo/demo", "fast"]
        assert (await served.http.get("/v1/models/demo/small")).json()["owned_by"] == "demo"
        assert (await served.http.get("/v1/models/nope")).status_code == 404
        answer = await served.http.post("/v1/responses", json={"model": "fast", "input": "hi"})
        assert text_of(answer.json()) == "echo: hi"
        unknown = await served.http.post("/v1/responses", json={"model": "nope/x", "input": "hi"})
        assert (unknown.status_code, unknown.json()["error"]["param"]) == (404, "model")
        said = unknown.json()["error"]["message"]
        assert "there is: demo/demo, fast; or provider, or provider/model" in said
        assert "codex, codex-acp, demo, gemini" in said


async def test_a17_another_model_or_directory_keeps_the_session(served: Served, tmp_path: Path) -> None:
    first = await served.ask("apple", conversation="x")
    (tmp_path / "else").mkdir()
    moved = await served.ask("!recall", conversation="x", metadata={"cwd": str(tmp_path / "else")})
    assert (moved.headers[SESSION], text_of(moved.json())) == (first.headers[SESSION], "apple")
    assert served.frames("session/new")[-1]["params"]["cwd"] == str(tmp_path / "else")
    again = await served.ask("!recall", conversation="x", model="demo/other")
    assert text_of(again.json()) == "apple\n!recall"
    assert served.starts() >= 2


async def test_an_agent_that_has_no_command_says_where_to_configure_one(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__model_permissions={"acp/*": "auto"}) as served:
        refused = await served.http.post("/v1/responses", json={"model": "acp", "input": "hi"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "agent_unavailable")
    assert "providers.acp.command: this agent has no command of its own" in refused.json()["error"]["message"]
