"""Gemini: `models/M:generateContent` and `models/M:streamGenerateContent`."""

import json
from collections.abc import Iterator

from ostler.wire.json import JsonObject
from tools.fake_llm.dialect import Dialect, Event, Reply
from tools.fake_llm.script import Call, Model, Request, Result, Said, Tool, User

USAGE = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}


class GeminiReply(Reply):
    def chunk(self, parts: list[JsonObject], *, last: bool) -> JsonObject:
        candidate: JsonObject = {"index": 0, "content": {"role": "model", "parts": parts}}
        if last:
            candidate["finishReason"] = "MAX_TOKENS" if self.limited else "STOP"
        return {"candidates": [candidate], "usageMetadata": USAGE, "modelVersion": self.request.model}

    def open(self) -> Iterator[Event]:
        return iter(())

    def on_text(self, piece: str) -> Iterator[Event]:
        yield Event(self.chunk([{"text": piece}], last=False))

    def on_call(self, call: Call) -> Iterator[Event]:
        yield Event(self.chunk([function_call(call)], last=False))

    def close(self) -> Iterator[Event]:
        yield Event(self.chunk([{"text": ""}], last=True))

    def whole(self) -> JsonObject:
        parts: list[JsonObject] = [{"text": self.said}] if self.said else []
        return self.chunk([*parts, *([function_call(self.call)] if self.call else [])], last=True)


def function_call(call: Call) -> JsonObject:
    return {"functionCall": {"name": call.tool.name, "args": call.arguments}}


class Gemini(Dialect):
    reply = GeminiReply

    def serves(self, path: str) -> bool:
        return path.endswith((":generateContent", ":streamGenerateContent"))

    def read(self, path: str, body: JsonObject) -> Request:
        model, _, verb = path.rsplit("/", 1)[-1].partition(":")
        offered = [tool for group in body.get("tools") or [] for tool in group.get("functionDeclarations") or []]
        return Request(
            model=model,
            said=[said for turn in body.get("contents") or [] for said in read_turn(turn)],
            tools=[Tool(tool["name"]) for tool in offered],
            stream=verb.startswith("stream"),
        )


def read_turn(turn: JsonObject) -> Iterator[Said]:
    for part in turn.get("parts") or []:
        if "functionResponse" in part:
            yield Result(json.dumps(part["functionResponse"].get("response")))
        elif turn.get("role") == "user" and "text" in part:
            yield User(part["text"])
        else:
            yield Model()
