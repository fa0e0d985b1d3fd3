"""Content parts of a request as parts of an agent's prompt.

Rules:
- Nothing is fetched: the gateway opens no URL for a client. Pictures and documents come inline (data URL or base64); a
  document by URL becomes a link that the agent may follow itself.
- This module does not check what the agent accepts: the pool refuses such a part before anything is sent.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from ostler.gateway.model.api_error import bad
from ostler.pool.prompt import FilePart, ImagePart, LinkPart, PromptPart, ResourcePart, TextPart

# Not a set: a client may send a list as the type of a part, and a list has no hash.
TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")


def parts_of(content: Any, param: str) -> list[PromptPart]:
    """Return the parts of a message's content, which is a text or a list. Raises a 400."""
    if isinstance(content, str):
        return [TextPart(content)]
    if not isinstance(content, list):
        raise bad(f"{param} must be a string or a list of content parts", param)
    return [part_of(part, f"{param}[{place}]") for place, part in enumerate(content)]


def part_of(part: Any, param: str) -> PromptPart:
    """Return one content part as a part of a prompt. Raises a 400 for an unsupported type."""
    kind = part.get("type") if isinstance(part, dict) else None
    match kind:
        case "refusal":
            return TextPart(text_field(part, "refusal", param))
        case "input_image" | "image_url":
            return image(part, param)
        case "input_file" | "file":
            inner = part.get("file")
            return document(inner if isinstance(inner, dict) else part, param)
        case _ if kind in TEXTS:
            return TextPart(text_field(part, "text", param))
        case _:
            raise bad(f"{param}: a content part of type {kind!r} is not supported", param, "unsupported_content")


def text_field(part: dict[str, Any], name: str, param: str) -> str:
    """Return a field that must be a string. Raises a 400."""
    value = part.get(name)
    if not isinstance(value, str):
        raise bad(f"{param}.{name} must be a string", f"{param}.{name}")
    return value


def image(part: dict[str, Any], param: str) -> ImagePart:
    """Return an inline picture. Raises a 400 for a picture by URL."""
    url = part.get("image_url")
    if isinstance(url, dict):
        url = url.get("url")
    if not isinstance(url, str) or not url.startswith("data:"):
        text = (
            f'{param}: send the picture inline, as image_url "data:image/png;base64,..."; the gateway fetches nothing'
        )
        raise bad(text, f"{param}.image_url", "unsupported_content")
    mime, data = data_url(url, f"{param}.image_url")
    return ImagePart(data, mime)


def document(part: dict[str, Any], param: str) -> PromptPart:
    """Return a file: inline, or as a link that the agent may follow."""
    name = part.get("filename") if isinstance(part.get("filename"), str) else "document"
    data, link = part.get("file_data"), part.get("file_url")
    if isinstance(link, str):
        return LinkPart(link, str(name))
    if not isinstance(data, str):
        text = f"{param}: send the file as file_data (base64) or file_url; uploaded files are not known here"
        raise bad(text, f"{param}.file_data", "unsupported_content")
    mime, content = data_url(data, f"{param}.file_data") if data.startswith("data:") else (None, checked(data, param))
    uri = f"file:///{name}"
    if mime is not None and mime.startswith("text/"):
        return ResourcePart(uri, base64.b64decode(content).decode("utf-8", "replace"), mime)
    return FilePart(uri, content, mime)


def data_url(url: str, param: str) -> tuple[str, str]:
    """Return (media type, base64) of a data URL. Raises a 400."""
    head, comma, data = url.removeprefix("data:").partition(",")
    mime, _, coding = head.partition(";")
    if not comma or not coding.endswith("base64"):
        raise bad(f"{param} must be a base64 data URL", param)
    return mime or "application/octet-stream", checked(data, param)


def checked(data: str, param: str) -> str:
    """Return the same text if it is base64. Raises a 400 otherwise."""
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise bad(f"{param} is no base64: {error}", param) from error
    return data


def words_of(parts: Sequence[PromptPart]) -> str:
    """Return the text of a message, with a placeholder for each part that is not text."""
    return "\n".join(word_of(part) for part in parts)


def word_of(part: PromptPart) -> str:
    """Return one part as text, or its placeholder."""
    match part:
        case TextPart(text):
            return text
        case ImagePart():
            return "[image]"
        case ResourcePart(uri=uri) | FilePart(uri=uri) | LinkPart(uri=uri):
            return f"[file {uri.removeprefix('file:///')}]"
        case _:
            return "[attachment]"
