"""One run of `ostler chat`, from finding a gateway to the last message.

Rules:
- Each start has a conversation of its own, at one place that all terminals of the user share: terminals do not write
  into each other's conversation, and each can resume a conversation of another.
- SIGTERM and a closed terminal end the run in order, as Ctrl-D does.
"""

import asyncio
import getpass
import os
import secrets
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ostler.gateway.cli.terminal.chat import FAILED, TerminalChat
from ostler.gateway.cli.terminal.gateway_locator import GatewayLocator, GatewayOptions
from ostler.gateway.cli.terminal.keyboard import Keyboard, ScriptedInput, TerminalInput, read_script
from ostler.gateway.cli.terminal.screen import Screen
from ostler.gateway.cli.terminal.talk import Talk
from ostler.gateway.config.data_folder import data_folder
from ostler.pool.tasks import TaskOwner

PLATFORM = "terminal"
HANG_UP = (signal.SIGTERM, signal.SIGHUP)
STDIN = "-"
SCRIPT_PATIENCE = 60.0
"""Seconds that a script waits for a gateway that it has lost; a user ends the wait with Ctrl-C."""
GREETING = "Enter sends, Alt-Enter begins a line, Ctrl-C stops the agent, Ctrl-D ends; /help lists the commands."


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The options of the command line."""

    once: str | None = None
    lines: bool = False
    resume: str | None = None
    """A title or id; "" means the last conversation."""
    model: str | None = None
    cwd: str | None = None
    key: str | None = None
    url: str | None = None
    data_dir: str | None = None
    config: str | None = None


async def run_chat(options: ChatOptions, environ: Mapping[str, str]) -> int:
    """Run the chat from start to end; return the exit code."""
    loop, hung_up = asyncio.get_running_loop(), asyncio.Event()
    for number in HANG_UP:
        loop.add_signal_handler(number, hang_up, hung_up, asyncio.current_task())
    keyboard = await open_keyboard(options, environ)
    tasks = TaskOwner(loop, seen)
    patience = None if isinstance(keyboard, TerminalInput) else SCRIPT_PATIENCE
    where = GatewayOptions(
        options.url, options.config, options.data_dir, prewarm=options.model is None, patience=patience
    )
    screen = Screen(sys.stdout, sys.stderr)
    try:
        async with GatewayLocator.opened(where, environ, screen.notice) as locator:
            place = f"{PLATFORM}:thread:{quote(user(), safe='')}"
            talk = Talk(locator.find, options.key or f"{place}:{secrets.token_hex(4)}")
            chat = TerminalChat(talk, keyboard, screen, tasks)
            await talk.connect()
            if isinstance(keyboard, TerminalInput):
                chat.screen.notice(GREETING)
            if not await chat.opened(await opening_commands(options, talk, place)):
                return FAILED
            return await chat.run()
    except asyncio.CancelledError:
        if not hung_up.is_set():
            raise  # Ctrl-C before a turn exists; the command turns it into its exit code
        return FAILED
    finally:
        await tasks.disband()


def hang_up(hung_up: asyncio.Event, task: "asyncio.Task[int] | None") -> None:
    """End the run in order: cancel the task that runs the chat."""
    hung_up.set()
    if task is not None:
        task.cancel()


async def open_keyboard(options: ChatOptions, environ: Mapping[str, str]) -> Keyboard:
    """The source of messages: the user if input and output are a terminal, else a script."""
    if options.once is not None and options.once != STDIN:
        return ScriptedInput([options.once])
    if options.once is None and sys.stdin.isatty() and sys.stdout.isatty():
        from ostler.gateway.chat.commands import load as load_commands  # noqa: PLC0415 - a script completes nothing

        commands = [
            (f"/{name}", command.summary) for command in load_commands() for name in (command.name, *command.aliases)
        ]
        return TerminalInput(data_folder(options.data_dir, environ), commands)
    return ScriptedInput(await read_script(sys.stdin, lines=options.lines))


async def opening_commands(options: ChatOptions, talk: Talk, place: str) -> list[str]:
    """The commands that the options of the command line stand for."""
    found: list[str] = []
    if options.resume is not None:
        found.append(f"/resume {options.resume or await latest(talk, place)}")
    if options.model is not None:
        found.append(f"/model {options.model}")
    if options.cwd is not None:
        found.append(f"/cwd {Path(options.cwd).expanduser().absolute()}")  # noqa: ASYNC240 - a name, no file is touched
    return found


async def latest(talk: Talk, place: str) -> str:
    """The id of the session that was last active at this place; "last" if there is none, which `/resume` reports as
    unknown."""
    data = (await talk.read(f"/v1/sessions?limit=1&platform={PLATFORM}&chat={quote(place, safe='')}")).get("data")
    first = data[0] if isinstance(data, list) and data else None
    return str(first["id"]) if isinstance(first, dict) else "last"


def user() -> str:
    """The name of the user; in a container, perhaps only the uid."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid{os.getuid()}"


def seen(name: str, error: BaseException) -> None:
    """Report a task that died, which is a bug. A closed output pipe is none."""
    if not isinstance(error, BrokenPipeError):
        print(f"ostler chat: {name} failed: {error!r}", file=sys.stderr)
