"""Runs the conversation in the terminal: a message, its answer as it arrives, the next message.

Rules:
- Ctrl-C while the agent works cancels its turn, not the program; a second one stops listening to the turn. The partial
  answer is stored like any other. If the turn has not begun when Ctrl-C comes, it is stopped as soon as it begins.
- Ctrl-C while the client waits for a gateway ends the wait, and the typed text is in the input line again.
- A permission request is put to the user at once; a script cannot be asked, so its request is denied.
- The exit code is that of the last answer: 0 good, 1 failed, 130 cancelled.
"""

import asyncio
import logging
import signal
from dataclasses import dataclass, field

from ostler.gateway.cli.terminal.http import Unreachable
from ostler.gateway.cli.terminal.keyboard import Consent, Interrupted, Keyboard
from ostler.gateway.cli.terminal.screen import Screen
from ostler.gateway.cli.terminal.talk import Talk
from ostler.gateway.model.errors import GatewayError
from ostler.pool.tasks import TaskOwner
from ostler.wire.json import JsonObject, Undecodable, decode, encode_line

log = logging.getLogger(__name__)
PREFIX = "session.message."
GOOD, FAILED, CANCELLED = 0, 1, 130
CODES = {"completed": GOOD, "incomplete": FAILED, "failed": FAILED, "cancelled": CANCELLED}


@dataclass
class TerminalChat:
    """One conversation, until its keyboard has no more messages."""

    talk: Talk
    keyboard: Keyboard
    screen: Screen
    tasks: TaskOwner
    code: int = GOOD
    _streamed: bool = False
    """Whether the answer was shown piece by piece."""
    _stops: int = field(default=0)
    _unsent: bool = False
    """Whether Ctrl-C came before any gateway had received the message."""

    async def run(self) -> int:
        """Send every message; return the exit code."""
        async for text in self.keyboard.messages():
            await self.answer(text)
        return self.code

    async def opened(self, commands: list[str]) -> bool:
        """Send commands before the conversation begins; return whether all succeeded."""
        for order in commands:
            try:
                said = await self.talk.order(order)
            except GatewayError as error:
                self.screen.notice(f"{order}: {error}")
                return False
            self.screen.notice(str(said.get("text", "")))
            if not said.get("items"):
                return False
        return True

    async def answer(self, text: str) -> None:
        """Send one message and show its answer."""
        self._streamed, self._stops, self._unsent = False, 0, False
        loop = asyncio.get_running_loop()
        listening = self.tasks.start(self._listen(text), "listen to the answer")
        loop.add_signal_handler(signal.SIGINT, self._interrupted, listening)
        await asyncio.wait([listening])
        # Not removed: without a handler, a late Ctrl-C would end the program at an arbitrary point.
        loop.add_signal_handler(signal.SIGINT, log.debug, "nothing runs that Ctrl-C could end")
        if self._unsent:
            self.code = CANCELLED
            self.keyboard.put_back(text)
            self.screen.notice("Not sent; your text is in the line again.")
        elif listening.cancelled():
            self.code = CANCELLED
            self.screen.notice("No longer listening; /history shows what was answered.")
        elif isinstance(error := listening.exception(), BrokenPipeError):
            raise error  # the reader of our output has closed the pipe
        self.screen.end_line()

    async def _listen(self, text: str) -> None:
        try:
            await self._follow(text)
        except Unreachable as error:
            self.code = FAILED
            kept = "" if error.before_sending else "; your message was sent, /history shows what is stored of it"
            self.screen.notice(f"{error}{kept}")
        except GatewayError as error:
            self.code = FAILED
            self.screen.notice(str(error))

    async def _follow(self, text: str) -> None:
        async for event in self.talk.say(text):
            kind = str(event.get("type", "")).removeprefix(PREFIX)
            match kind:
                case "started" if self._stops:
                    self._begin_stop()
                case "delta":
                    self._streamed = True
                    self.screen.say(str(event.get("text", "")))
                case "item":
                    self._show_item(event.get("item"))
                case "notice":
                    self.screen.notice(text_in(event.get("notice")))
                case "permission":
                    await self._decide(event.get("permission"))
                case _ if kind in CODES:
                    self._end(event.get("message"))
                case _:
                    log.debug("an event of kind %s is not shown", kind)

    def _interrupted(self, listening: "asyncio.Future[None]") -> None:
        self._stops += 1
        if self.talk.searching:
            self._unsent = True
            listening.cancel()
        elif self._stops == 1:
            self.screen.notice("Stopping; Ctrl-C once more leaves the agent alone with it.")
            self._begin_stop()
        else:
            listening.cancel()

    def _begin_stop(self) -> None:
        self.tasks.start(self._stop(), "stop the turn")

    async def _stop(self) -> None:
        try:
            # Only to this gateway: a later one would stop the next turn instead.
            await self.talk.order("/stop", at_once=True)
        except GatewayError as error:
            self.screen.notice(f"The turn cannot be stopped: {error}")

    async def _decide(self, asked: object) -> None:
        found: JsonObject = asked if isinstance(asked, dict) else {}
        title = str(found.get("title", ""))
        for line in facts_in(found.get("arguments")):
            self.screen.notice(line)
        try:
            said = await self.keyboard.confirm(f"Allow {title}?")
        except Interrupted:
            self._stops += 1
            self.screen.notice("Stopping.")
            self._begin_stop()
            return
        if said is None:
            self.screen.notice(f"The agent asks for permission ({title}); nobody is here to say yes.")
        word = "/deny" if not said else "/approve always" if said is Consent.ALWAYS else "/approve"
        reply = await self.talk.order(word)
        self.screen.notice(str(reply.get("text", "")))

    def _show_item(self, item: object) -> None:
        if isinstance(item, dict) and item.get("type") == "reasoning":
            for part in item.get("summary") or []:
                self.screen.activity(text_in(part))

    def _end(self, message: object) -> None:
        found: JsonObject = message if isinstance(message, dict) else {}
        kind, status = found.get("kind"), str(found.get("status", "failed"))
        self.code = FAILED if kind == "notice" else CODES.get(status, FAILED)
        if not self._streamed:
            self.screen.say(str(found.get("text", "")))
        self.screen.end_line()
        if status == "cancelled":
            self.screen.notice("Stopped.")
        elif status == "failed":
            self.screen.notice(f"Failed: {message_of(found.get('error'))}")
        elif status == "incomplete":
            self.screen.notice(f"Incomplete: {reason_of(found.get('incomplete_details'))}")


def text_in(part: object) -> str:
    """The text of a notice or of a content part."""
    return str(part.get("text", "")) if isinstance(part, dict) else ""


def message_of(error: object) -> str:
    """The message of an API error."""
    return str(error.get("message", "")) if isinstance(error, dict) else "no reason was given"


def reason_of(details: object) -> str:
    """Why the answer is incomplete."""
    return str(details.get("reason", "")) if isinstance(details, dict) else "no reason was given"


def facts_in(arguments: object) -> list[str]:
    """The arguments of a permission request, one per line: the command, the paths, the diff."""
    text = arguments if isinstance(arguments, str) else ""
    try:
        facts = decode(text.encode())
    except Undecodable:
        return [text] if text else []
    found = facts if isinstance(facts, dict) else {}
    return [f"  {name}: {value if isinstance(value, str) else written(value)}" for name, value in found.items()]


def written(value: object) -> str:
    """The value encoded as JSON."""
    return encode_line(value)[:-1].decode()
