"""What a slash command is, how one is read out of a message, and which ones there are.

Rules:
- A message is a command if it begins with a slash and a word. A slash further inside is text, and so is a path such as
  `/etc/hosts`: a word ends with white space, or with `@name`, by which group chats address one of several bots.
- A word that no command has is answered with the nearest one that there is. It is never sent to the agent.
- Commands of one conversation run one after another with its messages. One that `overtakes` runs at once, beside them:
  it is for looking and for stopping, and changes nothing that another could be in the middle of.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from ostler.gateway.chat.conversation import ChatConversation
from ostler.gateway.chat.question import Question
from ostler.wire.json import JsonObject

CALLED = re.compile(r"/([A-Za-z][A-Za-z0-9_-]*)(?:@\S+)?(?:\s+(.*))?", re.DOTALL)


class CommandKind(StrEnum):
    """What an answer of a face is."""

    ANSWER = "answer"
    COMMAND = "command"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class CommandReply:
    """What a command says."""

    text: str
    items: tuple[JsonObject, ...] = ()
    """The same for programs, where there is more to say than the text."""
    kind: CommandKind = CommandKind.COMMAND
    ask: Question | None = None
    """A question to put to the agent now, in the conversation's session: its answer comes in place of this reply."""


@dataclass(frozen=True, slots=True)
class CommandWords:
    """A command as somebody wrote it."""

    name: str
    """In lower case, without the slash."""
    args: str
    """What stands behind it, trimmed."""


@dataclass(frozen=True, slots=True)
class CommandCall:
    """One use of a command."""

    words: CommandWords
    conversation: ChatConversation
    commands: "Registry"

    @property
    def args(self) -> str:
        """What stands behind the command's name, trimmed."""
        return self.words.args


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """A slash command. What it refuses it raises, as a `Refused`: the face says it to the person."""

    name: str
    summary: str
    """One line for /help."""
    run: Callable[[CommandCall], Awaitable[CommandReply]]
    usage: str = ""
    """The arguments, as in `[N]`."""
    aliases: tuple[str, ...] = ()
    overtakes: bool = False
    asks: bool = False
    """Whether it may put an agent to work."""


class BadCommand(TypeError):
    """A module or an entry point that should name a command and does not, or a name that is taken."""


class Registry:
    """All commands."""

    def __init__(self, commands: Iterable[ChatCommand]) -> None:
        self._commands = sorted(commands, key=lambda command: command.name)
        self._names: dict[str, ChatCommand] = {}
        for command in self._commands:
            for name in (command.name, *command.aliases):
                if name in self._names:
                    raise BadCommand(f"/{name} is offered by two commands")
                self._names[name] = command

    def __iter__(self) -> Iterator[ChatCommand]:
        return iter(self._commands)

    def asks(self, words: CommandWords | None) -> bool:
        """Whether an agent may be put to work by this: by text, or by a command that asks."""
        command = None if words is None else self.find(words.name)
        return words is None or (command is not None and command.asks)

    @property
    def names(self) -> list[str]:
        """Every word that is understood, aliases too."""
        return sorted(self._names)

    def find(self, name: str) -> ChatCommand | None:
        """The command of this name or alias."""
        return self._names.get(name)

    def nearest(self, name: str) -> str | None:
        """The name that may have been meant."""
        close = get_close_matches(name, self._names, n=1, cutoff=0.5)
        return close[0] if close else next((known for known in self.names if known.startswith(name)), None)

    def unknown(self, name: str) -> str:
        """What to say about a word that no command has."""
        near = self.nearest(name)
        hint = f"did you mean /{near}? " if near else ""
        return f"There is no command /{name}; {hint}/help lists them all. Nothing was sent to the agent."


def parse(text: str) -> CommandWords | None:
    """The command that a message is; None for text."""
    found = CALLED.fullmatch(text.strip())
    return None if found is None else CommandWords(found[1].lower(), (found[2] or "").strip())
