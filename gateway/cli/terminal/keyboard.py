"""Sources of messages: a user who types, or a script.

Rules:
- Enter sends, Alt-Enter begins a new line, pasted lines stay together. Ctrl-C clears the line, Ctrl-D on an empty line
  ends the program. The history is kept in a file that only its owner can read.
- prompt_toolkit is imported only for interactive input: a script does not wait for the import.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

from ostler.gateway.model.errors import GatewayError

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

HISTORY = "chat-history"
PROMPT = "› "


class Interrupted(GatewayError):
    """The user pressed Ctrl-C instead of answering a question."""


class Consent(Enum):
    """The user's answer to a question; NO is false."""

    NO = ""
    ONCE = "once"
    ALWAYS = "always"
    """Applies to later requests of the same kind in the session too."""

    def __bool__(self) -> bool:
        return self is not Consent.NO


CONSENTS = {"y": Consent.ONCE, "yes": Consent.ONCE, "a": Consent.ALWAYS, "always": Consent.ALWAYS}


class Keyboard(Protocol):
    """A source of messages, which may be asked questions."""

    def messages(self) -> AsyncIterator[str]:
        """Yield the messages until there are no more."""

    async def confirm(self, question: str) -> Consent | None:
        """Ask a question; None if no user can be asked. Raises `Interrupted` on Ctrl-C."""

    def put_back(self, text: str) -> None:
        """Take back a message that was not sent: the next input line begins with it."""


class ScriptedInput:
    """Messages that are all known from the start."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    async def messages(self) -> AsyncIterator[str]:
        for text in self._texts:
            yield text

    async def confirm(self, question: str) -> Consent | None:
        del question
        return None

    def put_back(self, text: str) -> None:
        """A script cannot edit its message, so it is dropped."""


class TerminalInput:
    """A user at a terminal."""

    def __init__(self, folder: Path, commands: Sequence[tuple[str, str]]) -> None:
        self._folder = folder
        self._commands = commands
        """(command with its slash, summary)"""
        self._draft = ""

    async def messages(self) -> AsyncIterator[str]:
        session = self._session()
        while True:
            try:
                # Keep our SIGINT handler: here Ctrl-C is a key, and prompt_toolkit would remove our handler for good.
                draft, self._draft = self._draft, ""
                text = await session.prompt_async(PROMPT, handle_sigint=False, default=draft)
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if text.strip():
                yield text

    async def confirm(self, question: str) -> Consent | None:
        from prompt_toolkit import PromptSession  # noqa: PLC0415 - see the rules

        try:
            answer = await PromptSession[str]().prompt_async(f"{question} [y/N/always] ", handle_sigint=False)
        except KeyboardInterrupt as error:
            raise Interrupted(question) from error
        except EOFError:
            return Consent.NO
        return CONSENTS.get(answer.strip().lower(), Consent.NO)

    def put_back(self, text: str) -> None:
        self._draft = text

    def _session(self) -> "PromptSession[str]":
        from prompt_toolkit import PromptSession  # noqa: PLC0415 - see the rules
        from prompt_toolkit.history import FileHistory  # noqa: PLC0415 - see the rules

        from ostler.gateway.cli.terminal.completion import SlashCompleter, keys  # noqa: PLC0415 - see the rules

        return PromptSession(
            history=FileHistory(str(private_file(self._folder / HISTORY))),
            completer=SlashCompleter(self._commands),
            complete_while_typing=True,
            key_bindings=keys(),
            prompt_continuation="  ",
            enable_open_in_editor=True,
        )


def private_file(path: Path) -> Path:
    """Create the file if necessary, and make it private to its owner."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(file, 0o600)
    finally:
        os.close(file)
    return path


async def read_script(source: TextIO, *, lines: bool) -> list[str]:
    """Read a whole script: one message, or with `lines` one per line."""
    text = await asyncio.to_thread(source.read)
    found = text.splitlines() if lines else [text]
    return [message for message in found if message.strip()]
