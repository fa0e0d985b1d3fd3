"""The parts of a prompt, and what is refused before it is sent.

Rules:
- A part the agent did not offer to take is `PromptUnsupported`, a prompt over its limit is `PromptTooLarge`. Neither
  reaches the wire, because past the limit real agents answer nonsense, an error without a name, or nothing.
- A text that the agent would obey as a command of its own is sent as plain text: behind a line of its own, because a
  character in front of it would become part of the path that it may name.
- Text and links are always taken. Binary data is sent as base64 text.
"""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ostler.pool.errors import PromptTooLarge, PromptUnsupported
from ostler.pool.provider import Provider


@dataclass(frozen=True, slots=True)
class TextPart:
    """Plain text in a prompt."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """A picture, as base64."""

    data: str
    mime_type: str

    @classmethod
    def of(cls, content: bytes, mime_type: str) -> "ImagePart":
        """Encode raw bytes of a picture."""
        return cls(base64.b64encode(content).decode("ascii"), mime_type)


@dataclass(frozen=True, slots=True)
class AudioPart:
    """A sound recording, as base64."""

    data: str
    mime_type: str


@dataclass(frozen=True, slots=True)
class ResourcePart:
    """A text document given with its content."""

    uri: str
    text: str
    mime_type: str | None = None


@dataclass(frozen=True, slots=True)
class FilePart:
    """A binary document given with its content, as base64."""

    uri: str
    data: str
    mime_type: str | None = None


@dataclass(frozen=True, slots=True)
class LinkPart:
    """A document that the agent may read by itself."""

    uri: str
    name: str
    mime_type: str | None = None


FRAME = 64
"""Characters that a codec without documents adds around one that it passes on as text."""

PromptPart: TypeAlias = TextPart | ImagePart | AudioPart | ResourcePart | FilePart | LinkPart


@dataclass(frozen=True, slots=True)
class PromptCapabilities:
    """What the agent said it takes besides text and links."""

    image: bool = False
    audio: bool = False
    embedded: bool = False


PLAIN_LINE = "The user says:\n"
"""Put in front of a text that the agent would take for a command. A line of words survives agents that trim texts or
remove zero-width characters, and leaves the text itself as it is.
"""
WORD_JOINER = "\u2060"
"""A zero-width character that is no blank and is in no file name by accident."""


@dataclass(frozen=True, slots=True)
class PlainText:
    """Keeps an agent from obeying texts as commands. Without patterns it changes nothing."""

    commands: re.Pattern[str] | None = None
    mentions: re.Pattern[str] | None = None

    def of(self, part: PromptPart) -> PromptPart:
        """The part as it is sent. Every text is checked: agents look at the first, the last, or all of them joined."""
        if isinstance(part, TextPart | ResourcePart) and self.mentions is not None:
            part = replace(part, text=self.mentions.sub(WORD_JOINER, part.text))
        if isinstance(part, TextPart) and self.commands is not None and self.commands.match(part.text):
            return TextPart(PLAIN_LINE + part.text)
        return part

    def all(self, parts: Sequence[PromptPart]) -> Sequence[PromptPart]:
        """The whole prompt as it is sent."""
        return parts if self.commands is None and self.mentions is None else [self.of(part) for part in parts]


def size_of(part: PromptPart) -> int:
    """Characters that count towards the agent's limit. Pictures and sounds count 0: measured limits are on text
    only.
    """
    match part:
        case TextPart(text):
            return len(text)
        case ResourcePart(uri, text):
            return FRAME + len(uri) + len(text)
        case FilePart(uri, data):
            return FRAME + len(uri) + len(data)
        case LinkPart(uri, name):
            return FRAME + len(uri) + len(name)
        case ImagePart() | AudioPart():
            return 0


def check_prompt(parts: Sequence[PromptPart], provider: Provider, capabilities: PromptCapabilities) -> None:
    """Refuse a prompt that the agent would not take. Raises `PromptUnsupported`, `PromptTooLarge`."""
    for part in parts:
        kind = _missing(part, capabilities)
        if kind is not None:
            raise PromptUnsupported(provider=provider.name, kind=kind)
    limit = provider.prompt_limit
    if limit is None:
        return
    size = sum(map(size_of, parts))
    if size > limit.size:
        raise PromptTooLarge(provider=provider.name, size=size, limit=limit.size, unit=limit.unit)


def _missing(part: PromptPart, capabilities: PromptCapabilities) -> str | None:
    match part:
        case ImagePart() if not capabilities.image:
            return "image"
        case AudioPart() if not capabilities.audio:
            return "audio"
        case ResourcePart() | FilePart() if not capabilities.embedded:
            return "embedded resource"
        case _:
            return None
