"""An agent that ends its turn with nothing has not answered, and every client is told so."""

from pathlib import Path

import pytest

from tests.support.chats import Chat
from tests.support.served import serving, text_of

NOTHING = "!sleep 0"


async def test_n45_an_answer_without_anything_is_failed_and_says_why(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        answer = await served.ask(NOTHING, conversation="x")
        assert (answer.status_code, answer.json()["error"]["code"]) == (502, "empty_answer")
        assert "without a text" in answer.json()["error"]["message"]
        assert (await served.stream(NOTHING))[-1]["type"] == "response.failed"
        body = {"model": "demo", "messages": [{"role": "user", "content": NOTHING}]}
        plain = await served.http.post("/v1/chat/completions", json=body)
        assert (plain.status_code, plain.json()["error"]["code"]) == (502, "empty_answer")
        said = await Chat(served).send(NOTHING)
        assert (said.status_code, said.json()["error"]["code"]) == (502, "empty_answer")
        # The conversation goes on.
        assert await served.say("!recall", conversation="x") == NOTHING


@pytest.mark.parametrize("text", ["!think well", "hello", "!call nothing {}"])
async def test_n45_a_thought_a_word_or_a_call_is_an_answer(tmp_path: Path, text: str) -> None:
    async with serving(tmp_path / "data") as served:
        answer = (await served.ask(text)).json()
        assert answer["status"] == "completed", text_of(answer)
