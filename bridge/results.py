"""Converts the return value of a tool function to a `CallResult` and truncates it.

Rules: text stays text; a JSON value becomes its text, and an object also `structuredContent`; bytes need a media type.
A truncated text says so at the cut, because a model that does not know would take it for complete.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeGuard

from ostler.bridge.calls import CallResult
from ostler.bridge.schema import plain
from ostler.wire.json import JsonObject, Undecodable, Unencodable, decode, encode_line

RESULT: Final = "result"
"""The member that wraps a JSON value which is no object, as other MCP servers do."""
BLOB_LIMIT: Final = 8 * 1024 * 1024
FIRSTS: Final = frozenset('-0123456789["tfn')
"""The first characters of a JSON text that is no object."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image in a result, with its media type."""

    data: bytes
    mime: str


@dataclass(frozen=True, slots=True)
class Audio:
    """A sound in a result, with its media type."""

    data: bytes
    mime: str


@dataclass(frozen=True, slots=True)
class Resource:
    """A document inside the result: text, or bytes."""

    uri: str
    content: str | bytes
    mime: str | None = None


Block: TypeAlias = str | Image | Audio | Resource


class ResultRefused(TypeError):
    """A tool returned a value that no client could read."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"the tool returned something that is not a result: {detail}")


def result_of(value: object, limit: int) -> CallResult:
    """Convert and truncate. `limit` is in characters of text, all blocks together. Raises `ResultRefused`."""
    return truncated(_result(value), limit)


def structured_of(result: CallResult) -> JsonObject | None:
    """The value for `structuredContent`, which must be an object in MCP.

    If it is missing, gemini-cli copies a first text that is JSON into it and then rejects its own copy unless it is an
    object: every function that returns a number or a list would be an error.
    """
    if result.structured is not None or not result.content:
        return result.structured
    text = result.content[0].get("text")
    if result.content[0].get("type") != "text" or not isinstance(text, str) or not may_be_json(text):
        return None
    try:
        value = decode(text.encode())
    except (Undecodable, UnicodeEncodeError):
        return None
    return None if isinstance(value, dict) else {RESULT: value}


def may_be_json(text: str) -> bool:
    """Whether parsing is worth the time: most results are plain words."""
    return text.lstrip(" \t\r\n")[:1] in FIRSTS


def truncated(result: CallResult, limit: int) -> CallResult:
    """The result within the limit; blocks that fit are unchanged."""
    blocks: list[JsonObject] = []
    left = limit
    for block in result.content:
        kept = _fitting(block, left, limit)
        left -= len(kept.get("text", ""))
        blocks.append(kept)
    structured = result.structured
    if structured is not None and len(encode_line(structured)) > 4 * limit:
        structured = None
    return CallResult(tuple(blocks), result.is_error, structured)


def _result(value: object) -> CallResult:
    if isinstance(value, CallResult):
        return value
    if isinstance(value, str | Image | Audio | Resource):
        return CallResult((_block(value),))
    if value is None:
        return CallResult.text("done")
    if isinstance(value, list | tuple) and _are_blocks(value):
        return CallResult(tuple(_block(each) for each in value))
    return _document(value)


def _are_blocks(values: Sequence[object]) -> TypeGuard[Sequence[Block]]:
    """Whether the values are content blocks: images with or without texts. Texts alone are a JSON list."""
    kinds = str | Image | Audio | Resource
    return all(isinstance(each, kinds) for each in values) and not all(isinstance(each, str) for each in values)


def _block(value: Block) -> JsonObject:
    match value:
        case str():
            return {"type": "text", "text": value}
        case Image():
            return {"type": "image", "data": _base64(value.data), "mimeType": value.mime}
        case Audio():
            return {"type": "audio", "data": _base64(value.data), "mimeType": value.mime}
        case Resource():
            return {"type": "resource", "resource": _resource(value)}


def _resource(value: Resource) -> JsonObject:
    about: JsonObject = {"uri": value.uri} if value.mime is None else {"uri": value.uri, "mimeType": value.mime}
    if isinstance(value.content, bytes):
        return {**about, "blob": _base64(value.content)}
    return {**about, "text": value.content}


def _document(value: object) -> CallResult:
    document = plain(value)
    try:
        text = encode_line(document)[:-1].decode()
    except Unencodable as error:
        raise ResultRefused(str(error)) from error
    return CallResult(({"type": "text", "text": text},), structured=document if isinstance(document, dict) else None)


def _fitting(block: JsonObject, left: int, limit: int) -> JsonObject:
    text = block.get("text")
    if isinstance(text, str) and len(text) > left:
        mark = f"\n[truncated: {max(left, 0)} of {len(text)} characters shown, the limit is {limit}]"
        return {**block, "text": text[: max(left, 0)] + mark}
    size, most = _weight(block, limit)
    if size > most:
        return {"type": "text", "text": f"[left out: {block['type']} of {size} bytes, the limit is {most}]"}
    return block


def _weight(block: JsonObject, limit: int) -> tuple[int, int]:
    """The size of a block that cannot be cut, and its limit. Half a resource would look like a complete one."""
    resource = block.get("resource")
    if isinstance(resource, dict) and "text" in resource:
        return len(resource["text"]), limit
    return len(block.get("data", "")) + len(resource.get("blob", "") if isinstance(resource, dict) else ""), BLOB_LIMIT


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
