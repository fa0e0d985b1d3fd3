"""Session keys: which conversation a message belongs to. Pure.

Rules:
- `key_of` is the only function that derives the key of a place, for messages and commands. In a direct chat the chat is
  the conversation; in a group each user has one; in a thread all users share one.
- `checked_key` checks a key from outside (a URL). A key of the form that `key_of` makes belongs to its platform; any
  other belongs to `HTTP`.
- Keys of different owners (API keys) are different keys, even with equal text.
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
    """The place of a message, as its platform reports it."""

    platform: str
    chat: str
    user: str = ""
    group: bool = False
    thread: str = ""
    """Set if the platform has threads and the message is in one."""


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Names one conversation of one owner."""

    owner: str
    """The name of the API key; "" on a gateway without keys."""
    text: str
    """The key as surfaces and users write it."""
    platform: str = HTTP

    @property
    def stored(self) -> str:
        """The key as the store keeps it. The first slash ends the owner, because the owner is quoted."""
        return f"{quote(self.owner, safe='')}/{self.text}"

    @property
    def chat(self) -> str:
        """The place of the conversation, which limits what it sees of other sessions. Each terminal has a conversation
        of its own, and all terminals of a user are one place."""
        return self.text.rpartition(":")[0] if self.platform == TERMINAL else self.text

    def __str__(self) -> str:
        return self.text


def key_of(place: ChatPlace, owner: str = "") -> SessionKey:
    """Derive the key of a place."""
    chat, user, thread = (quoted(part) for part in (place.chat, place.user, place.thread))
    if thread:
        text = f"{place.platform}:thread:{chat}:{thread}"
    elif place.group:
        text = f"{place.platform}:group:{chat}:user:{user}"
    else:
        text = f"{place.platform}:direct:{chat}"
    return checked_key(text, owner)


def quoted(part: str) -> str:
    """Quote a name from a platform, so that no character in it can act as a separator of the key."""
    return quote(part, safe="").replace("..", "%2E%2E")


def checked_key(text: str, owner: str = "") -> SessionKey:
    """Check a key that came from outside; or raise `BadKey`."""
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
