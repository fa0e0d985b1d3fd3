"""OpenAI responses: `responses`. Tools may be grouped in namespaces, which a call has to name."""

import json
from collections.abc import Iterator

from ostler.wire.json import JsonObject
from tools.fake_llm.dialect import Dialect, Event, Reply, flat, texts
from tools.fake_llm.script import Call, Model, Request, Result, Said, Tool, User

USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 15,
}


class ResponsesReply(Reply):
    started = False

    def event(self, kind: str, **fields: object) -> Event:
        return Event({"type": kind, **fields}, kind)

    def response(self, status: str, output: list[JsonObject]) -> JsonObject:
        usage = None if status == "in_progress" else USAGE
        head = {"id": f"resp_{self.ident}", "object": "response", "created_at": 0, "model": self.request.model}
        why = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return {**head, "status": status, "incomplete_details": why, "output": output, "usage": usage}

    def part(self, text: str) -> JsonObject:
        return {"type": "output_text", "text": text, "annotations": []}

    @property
    def place(self) -> JsonObject:
        return {"item_id": f"msg_{self.ident}", "output_index": 0, "content_index": 0}

    def message(self, status: str) -> JsonObject:
        content = [self.part(self.said)] if status == "completed" else []
        head = {"type": "message", "id": f"msg_{self.ident}", "role": "assistant"}
        return {**head, "status": status, "content": content}

    def function_call(self, call: Call) -> JsonObject:
        item: JsonObject = {"type": "function_call", "id": f"fc_{self.ident}", "call_id": f"call_{self.ident}"}
        item |= {"name": call.tool.name, "arguments": json.dumps(call.arguments), "status": "completed"}
        return item if call.tool.space is None else {**item, "namespace": call.tool.space}

    def open(self) -> Iterator[Event]:
        yield self.event("response.created", response=self.response("in_progress", []))

    def on_text(self, piece: str) -> Iterator[Event]:
        if not self.started:
            self.started = True
            yield self.event("response.output_item.added", output_index=0, item=self.message("in_progress"))
            yield self.event("response.content_part.added", **self.place, part=self.part(""))
        yield self.event("response.output_text.delta", **self.place, delta=piece)

    def end_text(self) -> Iterator[Event]:
        if self.started:
            yield self.event("response.output_text.done", **self.place, text=self.said)
            yield self.event("response.output_item.done", output_index=0, item=self.message("completed"))

    def on_call(self, call: Call) -> Iterator[Event]:
        item, index = self.function_call(call), int(self.started)
        started = {**item, "arguments": "", "status": "in_progress"}
        yield self.event("response.output_item.added", output_index=index, item=started)
        yield self.event("response.output_item.done", output_index=index, item=item)

    def close(self) -> Iterator[Event]:
        yield from self.end_text()
        whole = self.whole()
        yield self.event(f"response.{whole['status']}", response=whole)

    def whole(self) -> JsonObject:
        text = [self.message("completed")] if self.said else []
        status = "incomplete" if self.limited and not self.call else "completed"
        return self.response(status, [*text, *([self.function_call(self.call)] if self.call else [])])


class OpenAIResponses(Dialect):
    reply = ResponsesReply

    def serves(self, path: str) -> bool:
        return path.endswith("/responses")

    def read(self, path: str, body: JsonObject) -> Request:
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given or []
        return Request(
            model=body.get("model", ""),
            said=[said for item in items for said in read_item(item)],
            tools=[tool for entry in body.get("tools") or [] for tool in read_tool(entry)],
            stream=bool(body.get("stream")),
        )


def read_item(item: JsonObject) -> Iterator[Said]:
    kind = str(item.get("type") or "message")
    if kind.endswith("_call_output"):
        yield Result(flat(item.get("output")))
    elif kind == "message" and item.get("role") == "user":
        yield from map(User, texts(item.get("content")))
    elif item.get("role") == "assistant" or kind.endswith("_call"):
        yield Model()


def read_tool(entry: JsonObject) -> Iterator[Tool]:
    if entry.get("type") == "namespace":
        yield from (Tool(tool["name"], entry["name"]) for tool in entry.get("tools") or [] if "name" in tool)
    elif "name" in entry:
        yield Tool(entry["name"])
