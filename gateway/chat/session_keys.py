"""Session keys: which conversation a message belongs to. Pure.

Rules:
- One function, `key_of`, derives the key of a place; messages and commands have no other way to one. In a direct chat
  the conversation is the chat, in a group it is each user's own, in a thread all who write there share it.
- A key from outside (a URL) is checked by `checked_key`. One of the form that `key_of` makes belongs to that platform;
  any other to `HTTP`.
- Keys of different owners (API keys) are different keys, however they are written.
"""

import re
from dataclasses import dataclass
from urllib.parse import quote

from ostler.gateway.chat.errors import BadKey

HTTP = "http"
TERMINAL = "terminal"
LONGEST = 256
DERIVED = re.compile(r"([a-z][a-z0-9_-]{0,31}):(?:direct|group|thread):.+")


@dataclass(frozen=True, slots=True)
class ChatPlace:
    """Where a platform says that a message was written."""

    platform: str
    chat: str
    user: str = ""
    group: bool = False
    thread: str = ""
    """Set where the platform has threads and the message is in one."""


@dataclass(frozen=True, slots=True)
class SessionKey:
    """One conversation of one owner."""

    owner: str
    """The name of the API key; "" on a gateway without keys."""
    text: str
    """As faces and people write it."""
    platform: str = HTTP

    @property
    def stored(self) -> str:
        """As the store keeps it: the first slash ends the owner, whatever an owner is called."""
        return f"{quote(self.owner, safe='')}/{self.text}"

    @property
    def chat(self) -> str:
        """The place it is held at: what a conversation may see of others ends there. Each terminal has a conversation
        of its own, and all terminals of a user are one place."""
        return self.text.rpartition(":")[0] if self.platform == TERMINAL else self.text

    def __str__(self) -> str:
        return self.text


def key_of(place: ChatPlace, owner: str = "") -> SessionKey:
    """The key of a place."""
    chat, user, thread = (quoted(part) for part in (place.chat, place.user, place.thread))
    if thread:
        text = f"{place.platform}:thread:{chat}:{thread}"
    elif place.group:
        text = f"{place.platform}:group:{chat}:user:{user}"
    else:
        text = f"{place.platform}:direct:{chat}"
    return checked_key(text, owner)


def quoted(part: str) -> str:
    """A name that a platform gave, as a part of a key: nothing in it can look like a part of its own."""
    return quote(part, safe="").replace("..", "%2E%2E")


def checked_key(text: str, owner: str = "") -> SessionKey:
    """A key that came from outside, or `BadKey`."""
    if not text:
        raise BadKey("it is empty")
    if len(text) > LONGEST:
        raise BadKey(f"it has more than {LONGEST} characters")
    if not text.isprintable():
        raise BadKey("it holds control characters")
    if ".." in text:
        raise BadKey("it holds '..'")
    derived = DERIVED.fullmatch(text)
    return SessionKey(owner, text, HTTP if derived is None else derived[1])
