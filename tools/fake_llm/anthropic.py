"""Anthropic messages: `messages`."""

import json
from collections.abc import Iterator

from ostler.wire.json import JsonObject
from tools.fake_llm.dialect import Dialect, Event, Reply, flat
from tools.fake_llm.script import Call, Model, Request, Result, Said, Tool, User


class MessagesReply(Reply):
    index = -1

    def event(self, kind: str, **fields: object) -> Event:
        return Event({"type": kind, **fields}, kind)

    def message(self, content: list[JsonObject], stop: str | None) -> JsonObject:
        head = {"id": f"msg_{self.ident}", "type": "message", "role": "assistant", "model": self.request.model}
        usage = {"input_tokens": 10, "output_tokens": 5}
        return {**head, "content": content, "stop_reason": stop, "stop_sequence": None, "usage": usage}

    def tool_use(self, call: Call) -> JsonObject:
        return {"type": "tool_use", "id": f"toolu_{self.ident}", "name": call.tool.name, "input": call.arguments}

    @property
    def stop(self) -> str:
        if self.call:
            return "tool_use"
        return "max_tokens" if self.limited else "end_turn"

    def open(self) -> Iterator[Event]:
        yield self.event("message_start", message=self.message([], None))

    def on_text(self, piece: str) -> Iterator[Event]:
        if self.index < 0:
            self.index = 0
            yield self.event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        yield self.event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})

    def end_block(self) -> Iterator[Event]:
        if self.index >= 0:
            yield self.event("content_block_stop", index=self.index)

    def on_call(self, call: Call) -> Iterator[Event]:
        yield from self.end_block()
        self.index += 1
        arguments = {"type": "input_json_delta", "partial_json": json.dumps(call.arguments)}
        yield self.event("content_block_start", index=self.index, content_block={**self.tool_use(call), "input": {}})
        yield self.event("content_block_delta", index=self.index, delta=arguments)

    def close(self) -> Iterator[Event]:
        yield from self.end_block()
        delta = {"stop_reason": self.stop, "stop_sequence": None}
        yield self.event("message_delta", delta=delta, usage={"output_tokens": 5})
        yield self.event("message_stop")

    def whole(self) -> JsonObject:
        text: list[JsonObject] = [{"type": "text", "text": self.said}] if self.said else []
        return self.message([*text, *([self.tool_use(self.call)] if self.call else [])], self.stop)


class Anthropic(Dialect):
    reply = MessagesReply

    def serves(self, path: str) -> bool:
        return path.endswith("/messages")

    def read(self, path: str, body: JsonObject) -> Request:
        return Request(
            model=body.get("model", ""),
            said=[said for message in body.get("messages") or [] for said in read_message(message)],
            tools=[Tool(tool["name"]) for tool in body.get("tools") or []],
            stream=bool(body.get("stream")),
        )


def read_message(message: JsonObject) -> Iterator[Said]:
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    for block in blocks:
        if block.get("type") == "tool_result":
            yield Result(flat(block.get("content")))
        elif message.get("role") != "user":
            yield Model()
        elif block.get("type") == "text":
            yield User(block["text"])
