"""One prompt being answered: its orders, one after the other, on a thread of its own.

Rules of this file: a turn waits in one place, `wait`, which a cancel always ends. Answers are joined by newlines; an
order without an answer (a thought, a pause) adds none. Text sent before a cancel is part of the conversation.
"""

from __future__ import annotations

import time
from binascii import Error as Base64Error
from binascii import a2b_base64
from queue import Empty, SimpleQueue

from ostler.demo import faults
from ostler.demo.frames import chunk, encode, request, update
from ostler.demo.orders import parse_orders
from ostler.demo.tools import DemoToolError, call_tool, list_tools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ostler.demo.conversation import Prompt
    from ostler.demo.mcp_client import McpServer
    from ostler.demo.orders import DemoOrder
    from ostler.demo.stdio import StdoutWriter

STREAM_BATCH = 500
OPTIONS = [
    {"optionId": "allow_once", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "allow_always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "reject_once", "name": "Reject once", "kind": "reject_once"},
    {"optionId": "reject_always", "name": "Always reject", "kind": "reject_always"},
]


class TurnCancelledError(Exception):
    """The client cancelled the turn, or is gone."""


class DemoTurn:
    """The running turn of one session."""

    def __init__(
        self,
        session: str,
        prompt: Prompt,
        earlier: str,
        *,
        outlet: StdoutWriter,
        asked: dict[object, Callable[[dict[str, object]], None]],
        servers: Callable[[], list[McpServer]],
        call_timeout: float,
        stated: str | None,
    ) -> None:
        """`stated`: the session id sent to tool servers with each call; None: none is sent."""
        self.session = session
        self.prompt = prompt
        self.earlier = earlier
        self.outlet = outlet
        self.asked = asked
        self.servers = servers
        self.call_timeout = call_timeout
        self.stated = stated
        self.cancelled = False
        self.late = False
        self.said: list[str] = []
        self._leaving = False
        self._inbox: SimpleQueue[tuple[str, object]] = SimpleQueue()
        self._calls = 0

    def perform(self) -> str:
        """Carry out every order of the prompt and return the stop reason."""
        try:
            for order in parse_orders(self.prompt.text):
                self._obey(order)
        except TurnCancelledError:
            return "cancelled"
        return "cancelled" if self.cancelled else "end_turn"

    def cancel(self) -> None:
        """End the turn at the next point where it waits or begins an order. Any thread."""
        self.cancelled = True
        self.deliver("wake", None)

    def leave(self) -> None:
        """End the turn's wait but let it send its answer: stdin has ended, so no more input can arrive."""
        self._leaving = True
        self.deliver("wake", None)

    def deliver(self, tag: str, value: object) -> None:
        """Give the turn a value that it may be waiting for. Any thread."""
        self._inbox.put((tag, value))

    def wait(self, tag: str, seconds: float | None = None) -> object | None:
        """Return the value delivered under `tag`, or None if it did not come in time. Raises `TurnCancelledError`."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            if self.cancelled or self._leaving:
                raise TurnCancelledError
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return None
            try:
                found, value = self._inbox.get(timeout=left)
            except Empty:
                return None
            if found == tag:
                return value

    def send(self, frame: dict[str, object]) -> None:
        self.outlet.send(frame)

    def say(self, text: str) -> None:
        """Send an answer, separated from the one before by a newline."""
        piece = "\n" + text if self.said else text
        self.said.append(text)
        if piece:
            self.send(chunk(self.session, "agent_message_chunk", piece))

    def begin_answer(self) -> None:
        """Separate an answer that is sent in pieces from the one before."""
        if self.said:
            self.send(chunk(self.session, "agent_message_chunk", "\n"))

    def next_call_id(self) -> str:
        self._calls += 1
        return f"call-{self.outlet.next_id()}-{self._calls}"

    def _obey(self, order: DemoOrder) -> None:
        if self.cancelled:
            raise TurnCancelledError
        answer = VERBS[order.verb](self, order)
        if answer is not None:
            self.say(answer)


def echo(_turn: DemoTurn, order: DemoOrder) -> str:
    return f"echo: {order.text}"


def refuse(_turn: DemoTurn, order: DemoOrder) -> str:
    return f"error: {order.text}"


def recall(turn: DemoTurn, _order: DemoOrder) -> str:
    return turn.earlier


def stream(turn: DemoTurn, order: DemoOrder) -> None:
    """Send N updates. The constant part of the frame is encoded once, because benches use this order."""
    turn.begin_answer()
    head, tail = _frame_around_text(turn.session)
    for first in range(0, int(order.number), STREAM_BATCH):
        last = min(first + STREAM_BATCH, int(order.number))
        turn.outlet.write(b"".join([b"%st%d %s" % (head, index, tail) for index in range(first, last)]))
        if turn.cancelled:
            turn.said.append("".join([f"t{index} " for index in range(last)]))
            raise TurnCancelledError
    turn.said.append("".join([f"t{index} " for index in range(int(order.number))]))


def sleep(turn: DemoTurn, order: DemoOrder) -> None:
    turn.wait("never", order.number)


def think(turn: DemoTurn, order: DemoOrder) -> None:
    turn.send(chunk(turn.session, "agent_thought_chunk", order.text))


def ask(turn: DemoTurn, order: DemoOrder) -> str:
    number = turn.outlet.next_id()
    turn.asked[number] = lambda frame: turn.deliver(f"answer {number}", frame)
    call = {
        "toolCallId": turn.next_call_id(),
        "title": order.text or "!ask",
        "kind": "other",
        "status": "pending",
    }
    params: dict[str, object] = {"sessionId": turn.session, "toolCall": call, "options": OPTIONS}
    try:
        turn.send(request(number, "session/request_permission", params))
        return _outcome(turn.wait(f"answer {number}"))
    finally:
        del turn.asked[number]


def image(turn: DemoTurn, _order: DemoOrder) -> str:
    if not turn.prompt.images:
        return "error: the prompt has no image"
    try:
        return "\n".join(str(len(a2b_base64(data))) for data in turn.prompt.images)
    except Base64Error as error:
        return f"error: the image is no base64: {error}"


def tools(turn: DemoTurn, _order: DemoOrder) -> str:
    return "\n".join(sorted(list_tools(turn)))


def call(turn: DemoTurn, order: DemoOrder) -> str:
    """Call a tool, with the updates a client shows while it runs."""
    call_id = turn.next_call_id()
    started = {"toolCallId": call_id, "title": order.text, "kind": "other", "status": "in_progress"}
    turn.send(update(turn.session, "tool_call", **started, rawInput=order.arguments))
    status = "failed"
    text = "cancelled"
    try:
        text = call_tool(turn, order.text, order.arguments)
        status = "completed"
    except DemoToolError as error:
        text = f"error: {error}"
    finally:
        content = [{"type": "content", "content": {"type": "text", "text": text}}]
        turn.send(
            update(
                turn.session,
                "tool_call_update",
                toolCallId=call_id,
                status=status,
                content=content,
                rawOutput=text,
            )
        )
    return text


def send_update(turn: DemoTurn, order: DemoOrder) -> None:
    """Send a session update of any kind, also one that no protocol defines."""
    turn.send(update(turn.session, order.text, **order.arguments))


def _frame_around_text(session: str) -> tuple[bytes, bytes]:
    head, _, tail = encode(chunk(session, "agent_message_chunk", "\x00")).partition(b"\\u0000")
    return head, tail


def _outcome(answer: object) -> str:
    frame = answer if isinstance(answer, dict) else {}
    if "error" in frame:
        return f"error: {frame['error'].get('message', 'refused')}" if isinstance(frame["error"], dict) else "error"
    result = frame.get("result")
    outcome = result.get("outcome") if isinstance(result, dict) else None
    if not isinstance(outcome, dict):
        return "error: the answer has no outcome"
    if "optionId" in outcome:
        return f"selected: {outcome['optionId']}"
    return str(outcome.get("outcome"))


VERBS: dict[str, Callable[[DemoTurn, DemoOrder], str | None]] = {
    "echo": echo,
    "refuse": refuse,
    "recall": recall,
    "stream": stream,
    "sleep": sleep,
    "think": think,
    "ask": ask,
    "image": image,
    "tools": tools,
    "call": call,
    "update": send_update,
    **faults.VERBS,
}
