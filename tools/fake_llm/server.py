"""The server: HTTP in, a dialect's answer out, one log line for each request.

Rules:
- A client that leaves while we pause or write ends its own request and nothing else; the log line says so.
- A path nobody serves is answered 404 and logged, so that a new agent version that asks for more is seen.
- The log holds what a contract test compares: model, prompt, tool names, whether a tool was called, and the texts that
  tell an earlier conversation.
"""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager

from ostler.wire.json import JsonObject
from ostler.wire.transcript import HEADER
from tools.fake_llm.anthropic import Anthropic
from tools.fake_llm.dialect import Dialect, Event, Reply
from tools.fake_llm.gemini import Gemini
from tools.fake_llm.http import STREAM_HEAD, BadRequest, HttpRequest, document, read_request
from tools.fake_llm.openai_chat import OpenAIChat
from tools.fake_llm.openai_responses import OpenAIResponses
from tools.fake_llm.script import Call, Pause, Piece, Request, Say, User, answer, prompt_of

DIALECTS: tuple[Dialect, ...] = (Gemini(), OpenAIChat(), OpenAIResponses(), Anthropic())
MODELS = {"object": "list", "data": [{"id": "fake-model", "object": "model", "owned_by": "nobody"}], "models": []}
TOLD = 100_000
"""Characters of a text that are looked at."""
COUNTS = {"input_tokens": 10, "totalTokens": 10}

Log = Callable[[JsonObject], None]


class FakeModels:
    """All dialects behind one port."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._idents = itertools.count(1)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            while (request := await read_request(reader)) is not None:
                if await self._respond(request, reader, writer):
                    break
        except (BadRequest, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            self._log({"connection": repr(error)})
        finally:
            writer.close()

    async def _respond(self, http: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; true when the connection is spent."""
        dialect = next((one for one in DIALECTS if http.method == "POST" and one.serves(http.path)), None)
        if dialect is None:
            body, status = small_answer(http)
            self._log({"path": http.path, "method": http.method, "status": status})
            writer.write(document(json.dumps(body).encode(), status))
            await writer.drain()
            return http.last
        request = dialect.read(http.path, json.loads(http.body or b"{}"))
        return await self._answer(request, dialect.reply(request, f"{next(self._idents):06d}"), http, reader, writer)

    async def _answer(
        self,
        request: Request,
        reply: Reply,
        http: HttpRequest,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        began = time.monotonic()
        gone = True
        try:
            if request.stream:
                writer.write(STREAM_HEAD)
            async for events in paced(reply, answer(request)):
                if request.stream:
                    writer.writelines([event.encode() for event in events])
                    await writer.drain()
                gone = reader.at_eof()
                if gone:
                    return True
            if not request.stream:
                writer.write(document(json.dumps(reply.whole()).encode()))
            await writer.drain()
            return request.stream or http.last
        finally:
            self._log(
                {
                    "path": http.path,
                    "model": request.model,
                    "prompt": prompt_of(request)[:200],
                    "told": transcripts(request),
                    "tools": [tool.qualified for tool in request.tools],
                    "called": None if reply.call is None else reply.call.tool.qualified,
                    "bytes": len(http.body),
                    "ms": round((time.monotonic() - began) * 1e3),
                    "gone": gone,
                }
            )


def transcripts(request: Request) -> list[str]:
    """The user's texts that tell an earlier conversation, as far as they are worth a look."""
    return [said.text for said in request.said if isinstance(said, User) and HEADER in said.text[:TOLD]][-1:]


async def paced(reply: Reply, pieces: Iterator[Piece]) -> AsyncIterator[Sequence[Event]]:
    """The events of an answer, piece by piece, with its pauses."""
    yield list(reply.open())
    for piece in pieces:
        match piece:
            case Pause(seconds):
                await asyncio.sleep(seconds)
            case Say(text):
                yield reply.text(text)
            case Call():
                yield reply.tool_call(piece)
    yield list(reply.close())


def small_answer(http: HttpRequest) -> tuple[JsonObject, str]:
    """Everything that is no generation."""
    if http.path.endswith(("/count_tokens", ":countTokens")):
        return COUNTS, "200 OK"
    if http.path.endswith("/models"):
        return MODELS, "200 OK"
    return {"error": {"message": f"nothing is served at {http.path}", "type": "not_found"}}, "404 Not Found"


@asynccontextmanager
async def running(log: Log, port: int = 0) -> AsyncIterator[int]:
    """Serve on loopback; the port is the value."""
    models = FakeModels(log)
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(models.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", port, limit=1 << 20)
    async with server:
        yield server.sockets[0].getsockname()[1]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
