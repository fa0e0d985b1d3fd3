"""The fake model server over a real socket: each dialect as its clients read it."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tools.fake_llm.server import running

ECHO = "echo"
PROMPT = "hi\n!stream 2"
SPOKEN = "echo: hi\nt0 t1 "


@dataclass
class Client:
    port: int
    log: list[dict[str, Any]] = field(default_factory=list)

    async def send(self, head: str, body: bytes = b"") -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"{head}\r\nconnection: close\r\n\r\n".encode() + body)
        answer = await reader.read()
        writer.close()
        return answer

    async def post(self, path: str, document: dict[str, Any]) -> tuple[int, bytes]:
        body = json.dumps(document).encode()
        raw = await self.send(f"POST {path} HTTP/1.1\r\ncontent-length: {len(body)}", body)
        head, _, rest = raw.partition(b"\r\n\r\n")
        return int(head.split()[1]), rest

    async def ask(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        status, body = await self.post(path, document)
        assert status == 200
        return dict(json.loads(body))

    async def stream(self, path: str, document: dict[str, Any]) -> list[dict[str, Any]]:
        status, body = await self.post(path, document)
        assert status == 200
        lines = [line.removeprefix("data: ") for line in body.decode().splitlines() if line.startswith("data: {")]
        return [json.loads(line) for line in lines]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    log: list[dict[str, Any]] = []
    async with running(log.append) as port:
        yield Client(port, log)


@dataclass(frozen=True)
class Api:
    """How a client of one API asks, and where it finds the answer."""

    path: str
    stream_path: str
    ask: Callable[[str], dict[str, Any]]
    streamed_text: Callable[[dict[str, Any]], str]
    whole_text: Callable[[dict[str, Any]], str]
    whole_call: Callable[[dict[str, Any]], tuple[str, Any]]
    came_back: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]
    """The next request: the one before, the agent's call, and the tool's result `done`."""


def gemini_text(chunk: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in chunk["candidates"][0]["content"]["parts"])


def gemini_call(answer: dict[str, Any]) -> tuple[str, Any]:
    call = answer["candidates"][0]["content"]["parts"][-1]["functionCall"]
    return call["name"], call["args"]


GEMINI = Api(
    path="/v1beta/models/m:generateContent",
    stream_path="/v1beta/models/m:streamGenerateContent?alt=sse",
    ask=lambda text: {
        "contents": [{"role": "user", "parts": [{"text": text}]}],
        "tools": [{"functionDeclarations": [{"name": ECHO}]}],
    },
    streamed_text=gemini_text,
    whole_text=gemini_text,
    whole_call=gemini_call,
    came_back=lambda asked, answer: {
        **asked,
        "contents": [
            *asked["contents"],
            answer["candidates"][0]["content"],
            {"role": "user", "parts": [{"functionResponse": {"name": ECHO, "response": {"output": "done"}}}]},
        ],
    },
)


def chat_call(answer: dict[str, Any]) -> tuple[str, Any]:
    function = answer["choices"][0]["message"]["tool_calls"][0]["function"]
    return function["name"], json.loads(function["arguments"])


CHAT = Api(
    path="/v1/chat/completions",
    stream_path="/v1/chat/completions",
    ask=lambda text: {
        "messages": [{"role": "system", "content": "be"}, {"role": "user", "content": text}],
        "tools": [{"type": "function", "function": {"name": ECHO}}],
    },
    streamed_text=lambda chunk: "".join(choice["delta"].get("content") or "" for choice in chunk["choices"]),
    whole_text=lambda answer: str(answer["choices"][0]["message"]["content"]),
    whole_call=chat_call,
    came_back=lambda asked, answer: {
        **asked,
        "messages": [*asked["messages"], answer["choices"][0]["message"], {"role": "tool", "content": "done"}],
    },
)


def response_call(answer: dict[str, Any]) -> tuple[str, Any]:
    item = answer["output"][-1]
    return item["name"], json.loads(item["arguments"])


RESPONSES = Api(
    path="/v1/responses",
    stream_path="/v1/responses",
    ask=lambda text: {
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}],
        "tools": [{"type": "function", "name": ECHO}],
    },
    streamed_text=lambda event: event["delta"] if event["type"] == "response.output_text.delta" else "",
    whole_text=lambda answer: str(answer["output"][0]["content"][0]["text"]),
    whole_call=response_call,
    came_back=lambda asked, answer: {
        **asked,
        "input": [*asked["input"], *answer["output"], {"type": "function_call_output", "output": "done"}],
    },
)


def message_call(answer: dict[str, Any]) -> tuple[str, Any]:
    return answer["content"][-1]["name"], answer["content"][-1]["input"]


MESSAGES = Api(
    path="/v1/messages",
    stream_path="/v1/messages",
    ask=lambda text: {"messages": [{"role": "user", "content": text}], "tools": [{"name": ECHO}]},
    streamed_text=lambda event: event["delta"]["text"] if event["type"] == "content_block_delta" else "",
    whole_text=lambda answer: str(answer["content"][0]["text"]),
    whole_call=message_call,
    came_back=lambda asked, answer: {
        **asked,
        "messages": [
            *asked["messages"],
            {"role": "assistant", "content": answer["content"]},
            {"role": "user", "content": [{"type": "tool_result", "content": "done"}]},
        ],
    },
)

each = pytest.mark.parametrize("api", [GEMINI, CHAT, RESPONSES, MESSAGES], ids=lambda api: api.path.rsplit("/", 1)[-1])


@each
async def test_a_streamed_answer_is_the_whole_answer_in_pieces(api: Api, client: Client) -> None:
    events = await client.stream(api.stream_path, {**api.ask(PROMPT), "stream": True})
    assert "".join(map(api.streamed_text, events)) == SPOKEN
    assert api.whole_text(await client.ask(api.path, api.ask(PROMPT))) == SPOKEN


@each
async def test_a_call_names_an_offered_tool_and_its_result_is_told(api: Api, client: Client) -> None:
    asked = api.ask('!call echo {"text": "x"}')
    answer = await client.ask(api.path, asked)
    assert api.whole_call(answer) == (ECHO, {"text": "x"})
    assert "done" in api.whole_text(await client.ask(api.path, api.came_back(asked, answer)))
    assert [line["called"] for line in client.log] == [ECHO, None]


@each
async def test_a_streamed_call_ends_the_stream(api: Api, client: Client) -> None:
    events = await client.stream(api.stream_path, {**api.ask("hi\n!call echo"), "stream": True})
    assert events
    assert client.log[-1]["called"] == ECHO


async def test_one_log_line_tells_a_request(client: Client) -> None:
    await client.ask(CHAT.path, {"model": "m", **CHAT.ask("canary")})
    (line,) = client.log
    assert (line["path"], line["model"], line["prompt"], line["tools"]) == (CHAT.path, "m", "canary", [ECHO])
    assert not line["gone"]


async def test_bodies_come_chunked_and_compressed_too(client: Client) -> None:
    body = gzip.compress(json.dumps(CHAT.ask("packed")).encode())
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:7], body[7:])) + b"0\r\n\r\n"
    head = f"POST {CHAT.path} HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip"
    assert b"echo: packed" in await client.send(head, chunks)


async def test_models_and_counts_are_told_and_the_rest_is_not_found(client: Client) -> None:
    assert b"fake-model" in await client.send("GET /v1/models HTTP/1.1")
    assert await client.ask("/v1/messages/count_tokens", {}) == {"input_tokens": 10, "totalTokens": 10}
    status, _ = await client.post("/v1/telemetry", {})
    assert status == 404
    assert client.log[-1] == {"path": "/v1/telemetry", "method": "POST", "status": "404 Not Found"}


async def test_a_client_that_leaves_during_a_pause_ends_only_its_own_request(client: Client) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    body = json.dumps({**CHAT.ask("!sleep 0.1\nlate"), "stream": True}).encode()
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    await reader.readline()
    writer.close()
    assert api_text(await client.ask(CHAT.path, CHAT.ask("!sleep 0.2\nhere"))) == "echo: here"
    assert [line["gone"] for line in client.log] == [True, False]


def api_text(answer: dict[str, Any]) -> str:
    return CHAT.whole_text(answer)


async def test_what_is_no_http_is_logged_and_hung_up(client: Client) -> None:
    assert await client.send("nonsense") == b""
    assert "no request line" in client.log[0]["connection"]
