"""The agent itself: requests in, answers out.

Rules of this file: one thread reads stdin and answers requests that need no waiting; a prompt, and a session that
starts tool servers, get a thread of their own. A session is free again before its prompt's answer is written, so a
client that prompts immediately is never refused.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from ostler.demo import faults, frames
from ostler.demo.conversation import DemoConversation, Prompt
from ostler.demo.frames import RpcError
from ostler.demo.mcp_acp import AcpLines
from ostler.demo.session import MODES, DemoSession, check_servers
from ostler.demo.turn import DemoTurn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ostler.demo.flags import Flags
    from ostler.demo.record import Recorder
    from ostler.demo.stdio import StdoutWriter
    from ostler.demo.store import DemoStore

    Params = dict[str, object]

PROTOCOL = 1
VERSION = "0.1.0"
EOF_GRACE = 0.25


class Later(Exception):
    """Raised by a handler whose answer another thread sends."""


class Agent:
    """All sessions of one process."""

    def __init__(self, flags: Flags, outlet: StdoutWriter, store: DemoStore, recorder: Recorder | None) -> None:
        self._flags = flags
        self._outlet = outlet
        self._store = store
        self._recorder = recorder
        self._sessions: dict[str, DemoSession] = {}
        # Sessions being opened or closed: no request can use them, but their tool servers must be ended with the agent.
        self._unlisted: list[DemoSession] = []
        self._sharing = threading.Lock()
        self._shared = DemoSession("shared", os.getcwd(), DemoConversation())
        self._asked: dict[object, Callable[[Params], None]] = {}
        self._lines = AcpLines(outlet, self._asked)
        self._threads: set[threading.Thread] = set()
        self._opened = 0
        self._methods = self._known_methods()

    def take(self, line: bytes) -> None:
        """Handle one line of input. A line that is no JSON object is ignored: it names no request to answer."""
        frame = frames.decode(line)
        if self._recorder is not None and line.strip():
            self._recorder.incoming(line, frame)
        if frame is None:
            return
        if "method" in frame:
            self._dispatch(frame)
        elif reply := self._asked.get(_hashable(frame.get("id"))):
            reply(frame)

    def finish(self) -> None:
        """Stdin has ended: let running turns send what they have, then end the tool servers."""
        for session in self._everyone():
            if session.turn is not None:
                session.turn.leave()
        deadline = time.monotonic() + EOF_GRACE
        for thread in list(self._threads):
            thread.join(max(0.0, deadline - time.monotonic()))
        everyone = self._everyone()
        for session in everyone:
            for server in session.servers:
                server.hang_up()
        for session in everyone:
            session.close_servers()

    def _everyone(self) -> list[DemoSession]:
        return [*self._sessions.values(), *self._unlisted, self._shared]

    def _known_methods(self) -> dict[str, Callable[[object, Params], Params]]:
        methods = {
            "initialize": self._initialize,
            "authenticate": self._nothing,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/list": self._list,
            "session/set_mode": self._set_mode,
            "session/set_model": self._set_model,
            "session/prompt": self._prompt,
        }
        if self._flags.no_close:
            del methods["session/close"]
        if self._flags.no_load:
            del methods["session/load"], methods["session/resume"]
        return methods

    def _dispatch(self, frame: Params) -> None:
        method = frame["method"]
        params = frame.get("params")
        facts = params if isinstance(params, dict) else {}
        if "id" not in frame:
            if method == "session/cancel":
                self._cancel(facts)
            elif method == "mcp/message":
                self._lines.hear(facts)
            return
        handler = self._methods.get(method) if isinstance(method, str) else None
        if handler is None:
            error = RpcError(frames.METHOD_NOT_FOUND, f"method not found: {method}")
            self._outlet.send(frames.failure(frame["id"], error))
        else:
            self._answer(frame["id"], lambda: handler(frame["id"], facts))

    def _answer(self, number: object, work: Callable[[], Params]) -> None:
        try:
            self._outlet.send(frames.result(number, work()))
        except RpcError as error:
            self._outlet.send(frames.failure(number, error))
        except Later:
            return

    def _answer_later(self, number: object, work: Callable[[], Params]) -> Later:
        """Answer from a thread of its own."""

        def run() -> None:
            self._answer(number, work)
            self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=run, daemon=True)
        self._threads.add(thread)
        thread.start()
        return Later()

    def _initialize(self, number: object, params: Params) -> Params:
        if self._flags.refuse_initialize:
            raise RpcError(frames.INTERNAL_ERROR, "told to refuse initialize")
        version = params.get("protocolVersion")
        # The version as a string is wrong and widespread; the answer is always the number that the schema requires.
        if isinstance(version, bool) or not str(version).isdecimal():
            raise RpcError(frames.INVALID_PARAMS, f"protocolVersion must be a number, got {version!r}")
        if self._flags.delay_initialize:
            raise self._answer_later(number, lambda: _after(self._flags.delay_initialize, self._abilities))
        return self._abilities()

    def _abilities(self) -> Params:
        tools: Params = {"http": self._flags.mcp_http, "sse": False}
        if self._flags.mcp_acp:
            tools["acp"] = True
        able: Params = {"list": {}, "delete": {}}
        if not self._flags.no_close:
            able["close"] = {}
        if not self._flags.no_load:
            able["resume"] = {}
        return {
            "protocolVersion": PROTOCOL,
            "agentInfo": {"name": "ostler-demo", "title": "Ostler demo agent", "version": VERSION},
            "agentCapabilities": {
                "loadSession": not self._flags.no_load,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": tools,
                "sessionCapabilities": able,
            },
            "authMethods": [],
        }

    def _nothing(self, _number: object, _params: Params) -> Params:
        return {}

    def _new(self, number: object, params: Params) -> Params:
        self._opened += 1
        if self._flags.exit_after is not None and self._opened > self._flags.exit_after:
            sys.stderr.write(f"demo agent: told to exit after {self._flags.exit_after} sessions\n")
            sys.stderr.flush()
            os._exit(1)
        session = DemoSession(f"demo-{os.urandom(8).hex()}", _cwd(params), DemoConversation())
        return self._open(number, params, session, lambda: {"sessionId": session.id, "modes": session.modes()})

    def _load(self, number: object, params: Params) -> Params:
        session = self._recalled(params)

        def replay() -> Params:
            for role, text in session.conversation.messages:
                kind = "user_message_chunk" if role == "user" else "agent_message_chunk"
                self._outlet.send(frames.chunk(session.id, kind, text))
            return {"modes": session.modes()}

        return self._open(number, params, session, replay)

    def _resume(self, number: object, params: Params) -> Params:
        session = self._recalled(params)
        return self._open(number, params, session, lambda: {"modes": session.modes()})

    def _recalled(self, params: Params) -> DemoSession:
        """Return the session to continue: the live one, or one restored from the store."""
        cwd = _cwd(params)
        name = frames.text_field(params, "sessionId")
        live = self._sessions.get(name)
        if live is not None:
            _refuse_if_busy(live)
            live.cwd = cwd
            return live
        stored = self._store.load(name)
        if stored is None:
            raise _unknown(name)
        return DemoSession(name, cwd, DemoConversation(stored[1]))

    def _open(self, number: object, params: Params, session: DemoSession, reply: Callable[[], Params]) -> Params:
        """Start the tool servers, then register the session and answer, so that no request can use it half open."""
        entries = frames.list_field(params, "mcpServers")
        check_servers(entries, self._flags)

        def work() -> Params:
            self._unlisted.append(session)
            time.sleep(self._flags.slow_session_new)
            self._equip(session, entries)
            self._sessions[session.id] = session
            self._unlisted.remove(session)
            return reply()

        if entries or self._flags.slow_session_new:
            raise self._answer_later(number, work)
        return work()

    def _equip(self, session: DemoSession, entries: list[Params]) -> None:
        if not self._flags.share_tools:
            session.close_servers()
            session.start_servers(entries, self._flags, self._lines, self._recorder)
            return
        with self._sharing:
            known = {server.name for server in self._shared.servers}
            new = [entry for entry in entries if entry["name"] not in known]
            self._shared.start_servers(new, self._flags, self._lines, self._recorder)

    def _session(self, params: Params) -> DemoSession:
        name = frames.text_field(params, "sessionId")
        session = self._sessions.get(name)
        if session is None:
            raise _unknown(name)
        return session

    def _close(self, number: object, params: Params) -> Params:
        session = self._session(params)
        if self._flags.refuse_close:
            raise RpcError(frames.INTERNAL_ERROR, "told to refuse close")
        del self._sessions[session.id]
        if session.turn is not None:
            session.turn.cancel()
        if not session.servers:
            return {}

        self._unlisted.append(session)

        def work() -> Params:
            session.close_servers()
            self._unlisted.remove(session)
            return {}

        raise self._answer_later(number, work)

    def _delete(self, _number: object, params: Params) -> Params:
        name = frames.text_field(params, "sessionId")
        if name in self._sessions:
            raise RpcError(frames.INVALID_REQUEST, f"session {name} is open: close it before it is deleted")
        self._store.delete(name)
        return {}

    def _list(self, _number: object, params: Params) -> Params:
        wanted = params.get("cwd")
        return {"sessions": [row for row in self._session_rows() if wanted is None or row["cwd"] == wanted]}

    def _session_rows(self) -> list[Params]:
        rows = [_row(session.id, session.cwd, session.conversation) for session in list(self._sessions.values())]
        for name, _ in self._store.sessions():
            stored = None if name in self._sessions else self._store.load(name)
            if stored is not None:
                rows.append(_row(name, stored[0], DemoConversation(stored[1])))
        return rows

    def _set_mode(self, _number: object, params: Params) -> Params:
        session = self._session(params)
        mode = frames.text_field(params, "modeId")
        if mode not in MODES:
            raise RpcError(frames.INVALID_PARAMS, f"unknown mode {mode!r}; there are {', '.join(MODES)}")
        session.mode = mode
        self._outlet.send(frames.update(session.id, "current_mode_update", currentModeId=mode))
        return {}

    def _set_model(self, _number: object, params: Params) -> Params:
        self._session(params)
        model = frames.text_field(params, "modelId")
        if model != "demo":
            raise RpcError(frames.INVALID_PARAMS, f"unknown model {model!r}; there is demo")
        return {}

    def _cancel(self, params: Params) -> None:
        session = self._sessions.get(str(params.get("sessionId")))
        if session is not None and session.turn is not None:
            session.turn.cancel()

    def _prompt(self, number: object, params: Params) -> Params:
        session = self._session(params)
        prompt = Prompt(frames.prompt_blocks(params))
        _refuse_if_busy(session)
        for role, text in prompt.history:
            session.conversation.add(role, text)
        earlier = session.conversation.recall()
        session.conversation.add("user", prompt.text)
        self._store.append(session.id, session.cwd, [*prompt.history, ("user", prompt.text)])
        home = self._shared if self._flags.share_tools else session
        turn = session.turn = DemoTurn(
            session.id,
            prompt,
            earlier,
            outlet=self._outlet,
            asked=self._asked,
            servers=lambda: home.servers,
            call_timeout=self._flags.call_timeout,
            stated=None if self._flags.share_tools else self._flags.claim_session or session.id,
        )
        raise self._answer_later(number, lambda: self._run(number, session, turn))

    def _run(self, number: object, session: DemoSession, turn: DemoTurn) -> Params:
        reason = turn.perform()
        answer = "\n".join(turn.said)
        if turn.said:
            session.conversation.add("assistant", answer)
            self._store.append(session.id, session.cwd, [("assistant", answer)])
        session.words_in += len(turn.prompt.text.split())
        session.words_out += len(answer.split())
        session.turn = None
        result: Params = {"stopReason": reason, "usage": session.usage()}
        if not turn.late:
            return result
        self._outlet.send(frames.result(number, result))
        faults.say_late_chunks(turn)
        raise Later


def _after(seconds: float, work: Callable[[], Params]) -> Params:
    time.sleep(seconds)
    return work()


def _cwd(params: Params) -> str:
    cwd = frames.text_field(params, "cwd")
    if not os.path.isabs(cwd) or not os.path.isdir(cwd):
        raise RpcError(frames.INVALID_PARAMS, f"cwd must be an absolute path of an existing folder, got {cwd!r}")
    return cwd


def _unknown(name: str) -> RpcError:
    return RpcError(frames.NOT_FOUND, f"unknown session {name!r}")


def _refuse_if_busy(session: DemoSession) -> None:
    if session.turn is not None:
        raise RpcError(
            frames.INVALID_REQUEST,
            f"session {session.id} is busy with a prompt: wait for its answer or cancel it",
        )


def _row(name: str, cwd: str, conversation: DemoConversation) -> Params:
    return {"sessionId": name, "cwd": cwd, "title": conversation.title()}


def _hashable(number: object) -> object:
    return number if isinstance(number, (str, int)) else None
