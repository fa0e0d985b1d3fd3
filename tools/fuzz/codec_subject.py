"""A codec under attack: every frame goes through the peer, then to the method that a transport would call with it."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

from ostler.pool.agent.codec import (
    AgentCall,
    AgentNotification,
    BadReply,
    Codec,
    PermissionWanted,
    RefusedRequest,
    ToolWanted,
)
from ostler.pool.events import PermissionAsked
from ostler.pool.order import SeatOrder
from ostler.pool.ports import PermissionChoice
from ostler.pool.prompt import TextPart
from ostler.wire.json import JsonObject, decode, encode_line
from ostler.wire.rpc import Junk, Notification, Peer, Reply, Request
from tools.fuzz.shapes import misfit

SESSIONS = ("s1", "s2")
SAID_BY_US = re.compile(rb'"id":1\b')


@dataclass(frozen=True)
class Answer:
    """A tool's answer, as the codec hands it to the agent."""

    content: list[JsonObject]
    is_error: bool = False


async def nobody(_session_id: str, _asked: PermissionAsked, /) -> PermissionChoice:
    return PermissionChoice(None, by="nobody")


class CodecSubject:
    """One codec that lives on while its sessions come and go."""

    def __init__(self, codec: Codec, rng: Random) -> None:
        self._codec = codec
        self._rng = rng
        self._peer: Peer[str] = Peer(versioned=codec.versioned, limit=64 * 1024)
        self._call_id = 0
        for session_id in SESSIONS:
            self._begin(session_id)

    def take(self, frame: bytes) -> None:
        if not self._peer.pending:
            self._call_id, _ = self._peer.call("session/prompt", {}, "prompt")
        frame = SAID_BY_US.sub(b'"id":%d' % self._call_id, frame)
        self._live()
        for message in self._peer.receive(frame + b"\n"):
            match message:
                case Notification(method=method, params=params):
                    self._told(method, params)
                case Request(method=method, params=params):
                    self._wanted(method, params)
                case Reply(result=result, fault=None):
                    self._answered(result)
                case Reply(fault=fault) if fault is not None:
                    self._codec.failed(self._session(), fault)
                case Junk() | Reply():
                    pass

    def end(self) -> None:
        for session_id in SESSIONS:
            self._codec.forget(session_id)

    def _session(self) -> str:
        return self._rng.choice(SESSIONS)

    def _begin(self, session_id: str) -> None:
        order = SeatOrder(cwd="/tmp", policy=nobody)
        self._say(self._codec.open(order))
        self._say(self._codec.load(session_id, order))
        self._codec.opened({}, session_id)
        for call in self._codec.set_mode(session_id, "plan"):
            self._say(call)

    def _live(self) -> None:
        """What a gateway does meanwhile."""
        lot = self._rng.random()
        session_id = self._session()
        if lot < 0.05:
            self._say(self._codec.prompt(session_id, [TextPart("hello \ud83d")]))
        elif lot < 0.07:
            self._say(self._codec.cancel(session_id))
        elif lot < 0.08:
            for call in self._codec.close(session_id, offered=True):
                self._say(call)
            self._codec.forget(session_id)
            self._begin(session_id)

    def _say(self, said: AgentCall | AgentNotification | None) -> None:
        if said is not None:
            decode(encode_line(said.params))

    def _told(self, method: str, params: JsonObject) -> None:
        told = self._codec.session_update(method, params)
        if told is None:
            return
        session_id, event = told
        if type(session_id) is not str:
            raise AssertionError(f"a session is a text, not {session_id!r}")
        self._check(event)

    def _wanted(self, method: str, params: JsonObject) -> None:
        wanted = self._codec.wanted(method, params)
        match wanted:
            case PermissionWanted(session_id=session_id, asked=asked):
                self._check(wanted)
                if type(session_id) is not str or not asked.options:
                    raise AssertionError("a permission request has a session and options")
                for option in (None, *(option.id for option in asked.options)):
                    self._write(self._codec.permission_answer(wanted, option))
            case ToolWanted(arguments=arguments):
                self._check(wanted)
                self._write(self._codec.tool_answer(Answer([{"type": "text", "text": "x"}, arguments])))
            case RefusedRequest(fault=fault):
                self._peer.reply_fault(1, fault)

    def _write(self, answer: JsonObject) -> None:
        decode(self._peer.reply(1, answer))

    def _answered(self, result: Any) -> None:
        readings: Mapping[str, Callable[[], object]] = {
            "welcomed": lambda: self._codec.welcomed(result),
            "opened": lambda: self._opened(result),
            "replied": lambda: self._codec.replied(self._session(), result),
        }
        for reading in readings.values():
            try:
                self._check(reading())
            except BadReply:
                continue
        with suppress(BadReply):
            for event in self._codec.replayed_events(result):
                self._check(event)

    def _opened(self, result: Any) -> object:
        opened = self._codec.opened(result)
        if opened.session_id not in SESSIONS:
            self._codec.forget(opened.session_id)
        return opened

    def _check(self, value: object) -> None:
        wrong = None if value is None else misfit(value)
        if wrong is not None:
            raise AssertionError(wrong)
