"""The type of slash commands, their syntax, and the registry.

Rules:
- A message is a command if it begins with a slash and a word. A slash further inside is text, and so is a path such as
  `/etc/hosts`: the word ends at white space, or at `@name`, by which group chats address one of several bots.
- An unknown command is answered with the nearest known one. It is never sent to the agent.
- Commands and messages of one conversation run one after another. A command that `overtakes` runs at once: it only
  reads or stops, and changes nothing that another command may be in the middle of changing.
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
    """The kind of a reply from a chat surface."""

    ANSWER = "answer"
    COMMAND = "command"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class CommandReply:
    """The result of a command."""

    text: str
    items: tuple[JsonObject, ...] = ()
    """The same for programs, with facts that the text leaves out."""
    kind: CommandKind = CommandKind.COMMAND
    ask: Question | None = None
    """Prompt the agent with this question now, in the conversation's session; its answer takes the place of this
    reply."""


@dataclass(frozen=True, slots=True)
class CommandWords:
    """A command as the user typed it."""

    name: str
    """In lower case, without the slash."""
    args: str
    """The text after the name, trimmed."""


@dataclass(frozen=True, slots=True)
class CommandCall:
    """One invocation of a command."""

    words: CommandWords
    conversation: ChatConversation
    commands: "Registry"

    @property
    def args(self) -> str:
        """The text after the command's name, trimmed."""
        return self.words.args


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """A slash command. `run` may raise `RequestRefused`; the frontend shows its text to the user."""

    name: str
    summary: str
    """One line for /help."""
    run: Callable[[CommandCall], Awaitable[CommandReply]]
    usage: str = ""
    """The arguments, for example `[N]`."""
    aliases: tuple[str, ...] = ()
    overtakes: bool = False
    asks: bool = False
    """Whether the command may prompt an agent."""


class BadCommand(TypeError):
    """A module or entry point does not provide a command, or the command's name is taken."""


class Registry:
    """All commands, by name and alias."""

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
        """Whether the message may prompt an agent: text does, and so do commands with `asks`. `words` is None for
        text."""
        command = None if words is None else self.find(words.name)
        return words is None or (command is not None and command.asks)

    @property
    def names(self) -> list[str]:
        """All names and aliases."""
        return sorted(self._names)

    def find(self, name: str) -> ChatCommand | None:
        """The command with this name or alias."""
        return self._names.get(name)

    def nearest(self, name: str) -> str | None:
        """The known name that is most similar, to suggest it."""
        close = get_close_matches(name, self._names, n=1, cutoff=0.5)
        return close[0] if close else next((known for known in self.names if known.startswith(name)), None)

    def unknown(self, name: str) -> str:
        """The reply to an unknown command."""
        near = self.nearest(name)
        hint = f"did you mean /{near}? " if near else ""
        return f"There is no command /{name}; {hint}/help lists them all. Nothing was sent to the agent."


def parse(text: str) -> CommandWords | None:
    """Parse a message as a command; None for text."""
    found = CALLED.fullmatch(text.strip())
    return None if found is None else CommandWords(found[1].lower(), (found[2] or "").strip())
