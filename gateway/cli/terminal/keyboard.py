"""Where messages come from: a person who types, or a script.

Rules:
- Enter sends, Alt-Enter begins a new line, pasted lines stay together. Ctrl-C empties the line, Ctrl-D on an empty one
  ends. What was typed is kept in a file that only its owner can read.
- prompt_toolkit is imported only where a person types: a script does not wait for it.
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
    """Ctrl-C was the answer to a question."""


class Consent(Enum):
    """What a person says to a question; no is false."""

    NO = ""
    ONCE = "once"
    ALWAYS = "always"
    """Also for what is asked of the same kind later in the session."""

    def __bool__(self) -> bool:
        return self is not Consent.NO


CONSENTS = {"y": Consent.ONCE, "yes": Consent.ONCE, "a": Consent.ALWAYS, "always": Consent.ALWAYS}


class Keyboard(Protocol):
    """Messages, one after the other."""

    def messages(self) -> AsyncIterator[str]:
        """Until there are no more."""

    async def confirm(self, question: str) -> Consent | None:
        """Yes, always or no; None where nobody can be asked. Raises `Interrupted` for Ctrl-C."""

    def put_back(self, text: str) -> None:
        """A message that was not sent: the next line begins with it."""


class ScriptedInput:
    """Messages that are all there from the beginning."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    async def messages(self) -> AsyncIterator[str]:
        for text in self._texts:
            yield text

    async def confirm(self, question: str) -> Consent | None:
        del question
        return None

    def put_back(self, text: str) -> None:
        """A script says its messages in their order, or ends."""


class TerminalInput:
    """Somebody at a terminal."""

    def __init__(self, folder: Path, commands: Sequence[tuple[str, str]]) -> None:
        self._folder = folder
        self._commands = commands
        """(word, what it does)"""
        self._draft = ""

    async def messages(self) -> AsyncIterator[str]:
        session = self._session()
        while True:
            try:
                # SIGINT stays ours: here Ctrl-C is a key, and prompt_toolkit would take our handler away for good.
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
    """The file, there and for its owner only."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(file, 0o600)
    finally:
        os.close(file)
    return path


async def read_script(source: TextIO, *, lines: bool) -> list[str]:
    """All that a script has to say: one message, or one for each line."""
    text = await asyncio.to_thread(source.read)
    found = text.splitlines() if lines else [text]
    return [message for message in found if message.strip()]
