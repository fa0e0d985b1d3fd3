"""What an API dialect is: it reads a request, and writes an answer as events or in one piece."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ostler.wire.json import JsonObject
from tools.fake_llm.script import Call, Request, is_limited


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event. Text data is sent as it stands."""

    data: JsonObject | str
    name: str | None = None

    def encode(self) -> bytes:
        """The event on the wire."""
        data = self.data if isinstance(self.data, str) else json.dumps(self.data)
        head = "" if self.name is None else f"event: {self.name}\n"
        return f"{head}data: {data}\n\n".encode()


class Reply(ABC):
    """One answer being written. `text` may come many times, `call` at most once and last."""

    def __init__(self, request: Request, ident: str) -> None:
        self.request = request
        self.ident = ident
        self.limited = is_limited(request)
        self.said = ""
        self.call: Call | None = None

    def text(self, piece: str) -> Sequence[Event]:
        """A piece of text."""
        self.said += piece
        return list(self.on_text(piece))

    def tool_call(self, call: Call) -> Sequence[Event]:
        """The tool call that ends the answer."""
        self.call = call
        return list(self.on_call(call))

    @abstractmethod
    def open(self) -> Iterator[Event]: ...

    @abstractmethod
    def on_text(self, piece: str) -> Iterator[Event]: ...

    @abstractmethod
    def on_call(self, call: Call) -> Iterator[Event]: ...

    @abstractmethod
    def close(self) -> Iterator[Event]: ...

    @abstractmethod
    def whole(self) -> JsonObject:
        """The answer as one document, for a request that wants no stream."""


class Dialect(ABC):
    """One API."""

    reply: type[Reply]

    @abstractmethod
    def serves(self, path: str) -> bool:
        """Whether a POST to this path is this dialect's."""

    @abstractmethod
    def read(self, path: str, body: JsonObject) -> Request: ...


def flat(content: object) -> str:
    """The text of a content value: a string, or a list of parts that hold text."""
    match content:
        case str():
            return content
        case list():
            return "".join(part["text"] for part in content if isinstance(part, dict) and "text" in part)
        case None:
            return ""
        case _:
            return json.dumps(content)


def texts(content: object) -> Iterator[str]:
    """The separate texts of a content value: agents put the user's own text beside their furniture."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        yield from (part["text"] for part in content if isinstance(part, dict) and "text" in part)
