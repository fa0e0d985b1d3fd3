"""Turns a request of the Responses API into a turn of a session, in two steps: first check everything, then begin."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import NoReturn

from ostler.gateway.config.keys import Caller
from ostler.gateway.http.body import ResponseBody, functions_of
from ostler.gateway.http.decisions import PermissionAnswers, decided
from ostler.gateway.http.items import InputConversation, check_count, named, read_input, resolved
from ostler.gateway.http.prefixes import ConversationEnd, Prefixes, digest_of
from ostler.gateway.http.session_finder import SessionFinder, Target
from ostler.gateway.http.slash import Obeyed, Slash, write_down
from ostler.gateway.model import continuity
from ostler.gateway.model.api_error import bad
from ostler.gateway.model.ask import Ask, CallOutput, Entry, HistoryLine
from ostler.gateway.model.errors import CallsAnswered, Draining
from ostler.gateway.model.permits import NAME as PERMISSIONS
from ostler.gateway.model.permits import PermissionRule
from ostler.gateway.model.records import UNSTORED, ParkState, ResponseRecord, Role
from ostler.gateway.turns.answer import AnswerStream, Ended, StoredAnswer
from ostler.gateway.turns.places import Places
from ostler.gateway.turns.prompt import told_entries
from ostler.gateway.turns.session import Reserved, Session
from ostler.gateway.turns.sessions import Sessions
from ostler.gateway.turns.timings import TurnTimings
from ostler.gateway.turns.turn import Turn
from ostler.pool.keys import TransportKey
from ostler.pool.prompt import PromptPart, TextPart
from ostler.wire.json import JsonObject

GO_ON = "Go on: the results of your tool calls are the last lines of the conversation above."
TRUNCATIONS = ("auto", "disabled")
ASKED = {"function_call": "call_id", "mcp_approval_request": "id"}
"""Types of items that need an answer, and the field with their id."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that passed every check."""

    body: ResponseBody
    caller: Caller
    model: str
    session_id: str
    slug: str | None
    items: tuple[JsonObject, ...]
    """The input items, as `input_items` lists them."""
    ask: Ask
    outputs: tuple[CallOutput, ...] = ()
    """Results for a turn that is parked in this process."""
    resumes: str | None = None
    """The session whose parked turn waits for these results."""
    reply: str | None = None
    """The reply of a slash command; the agent is not prompted."""
    conversation: tuple[Entry, ...] | None = None
    """The whole conversation up to the answer, if the client sends it with each request."""
    place: tuple[Session, Reserved] | None = None
    """The reserved place in which the turn must run."""

    @property
    def store(self) -> bool:
        """Whether clients may read the response again."""
        return self.body.store is not False


class RequestPreparer:
    """Checks requests of the Responses API, and begins their turns."""

    def __init__(
        self,
        sessions: Sessions,
        finder: SessionFinder,
        places: Places,
        prefixes: Prefixes,
        slash: Slash | None = None,
        *,
        remembers: bool = False,
    ) -> None:
        """`remembers`: whether conversations of the API have a memory, as those of chat surfaces do."""
        self._remembers = remembers
        self._sessions = sessions
        self._slash = slash
        self._prefixes = prefixes
        self._finder = finder
        self._decisions = PermissionAnswers(sessions)
        self._places = places
        self._ids = sessions.deps.ids

    def check_counts(self, body: ResponseBody) -> None:
        """Refuse too many items, before any other work on them."""
        limit = self._sessions.deps.settings.items_max
        check_count(body.input, limit)
        check_count(body.conversation_history, limit, "conversation_history")

    def asks(self, body: ResponseBody) -> bool:
        """Whether this request may prompt an agent."""
        return self._slash is None or body.input is None or self._slash.asks(body.input)

    async def prepare(self, body: ResponseBody, caller: Caller, *, resends: bool = False) -> Prepared:
        """Check the whole request; only then create its session if there is none.

        `resends`: the client repeats the conversation even if it names a session that has it, and it has no way to
        answer a permission request.
        """
        check(body)
        given = await resolved(body.input, self._sessions.deps.store, caller.name)
        target = await self._finder.find(body, caller.name)
        said = read_input(given, self._ids.make, await self._taken(given, target))
        obeyed = await self._slash.obey(said.parts, target, caller) if self._slash is not None else None
        if obeyed is not None:
            return self._obeyed(obeyed, body, said, target, caller)
        await self._decisions.check(said.outputs, caller.name)
        waiting = self._waiting(said, target, caller)
        if not said.question and not said.outputs:
            raise bad("input has no message of the user", "input")
        known = await self._check_outputs(said, target) if said.outputs and waiting is None else {}
        if resends and target.session is not None:
            said.entries.clear()
        model = body.model or (target.session.model if target.session else None) or self._places.models.default
        cwd = (body.metadata or {}).get("cwd") or (target.session.cwd if target.session else None)
        key = await self._places.key(model, cwd, caller)
        requested, kept = (body.metadata or {}).get(PERMISSIONS), target.kept(PERMISSIONS)
        rule = self._places.rule(key, caller, requested, kept)
        ask = replace(self._ask(body, said, key), hands_over=True, rule=rule, named=tuple(known.items()))
        if resends and rule is PermissionRule.ASK:
            ask = replace(ask, rule=PermissionRule.DENY)
        items = tuple(input_items(said))
        conversation = whole(said) if stateless(body) else None
        prepared = Prepared(body, caller, model, waiting or "", target.slug, items, ask, conversation=conversation)
        if waiting is not None:
            return replace(prepared, outputs=tuple(said.outputs), resumes=waiting)
        warm = await self._warm(prepared, said)
        if warm is not None:
            return warm
        session = self._sessions.find(target.session.id) if target.session and target.after is None else None
        if session is not None:
            session.check_room()
        await self._decisions.claim(said.outputs, caller.name)
        store = body.store is not False
        kind: JsonObject = {} if requested is None else {PERMISSIONS: requested}
        if not store and target.session is None:
            kind |= {UNSTORED: False}
        opened = await self._finder.open(target, key, caller.name, keep_slug=store, metadata=kind)
        return replace(prepared, session_id=opened.session_id, place=opened.place)

    async def _taken(self, given: str | list[JsonObject], target: Target) -> Collection[str]:
        """Return the ids that the client gave to items and that the conversation has already: the client sends old
        items again."""
        ids = named(given)
        known = self._sessions.deps.store.known_items
        return await known(target.session.id, ids) if ids and target.session is not None else ()

    def _obeyed(
        self, obeyed: Obeyed, body: ResponseBody, said: InputConversation, target: Target, caller: Caller
    ) -> Prepared:
        """Return the prepared answer to a command: its reply, or the agent's answer to the question that the command
        asks."""
        model = body.model or f"{obeyed.ask.key.provider}/{obeyed.ask.key.model}"
        items = tuple(input_items(said))
        return Prepared(body, caller, model, obeyed.session_id, target.slug, items, obeyed.ask, reply=obeyed.text)

    async def _warm(self, prepared: Prepared, said: InputConversation) -> Prepared | None:
        """Continue in the session that has exactly the resent conversation, if there is one that has not continued
        since."""
        if prepared.conversation is None or not said.entries or not said.question:
            return None
        owner, digest = prepared.caller.name, digest_of(seed(prepared.ask), said.entries)
        held = self._prefixes.find(owner, digest)
        if held is None:
            return None
        self._prefixes.take(owner, digest)
        place = await self._finder.place_behind(held, owner)
        if place is None:
            return None
        return replace(prepared, session_id=held.session_id, ask=replace(prepared.ask, preface=()), place=place)

    def answer(
        self,
        prepared: Prepared,
        answer_id: str,
        stored: Callable[[AnswerStream], StoredAnswer],
        opening: ResponseRecord | None = None,
    ) -> AnswerStream:
        """Return the answer that the turn will write."""
        functions = [str(tool["name"]) for tool in prepared.ask.tools]
        answer = AnswerStream(answer_id, stored, opening=opening, functions=functions)
        answer.on_end.append(lambda end: self._learn(prepared, answer_id, end))
        return answer

    def begin(self, prepared: Prepared, answer: AnswerStream) -> Turn:
        """Start the turn in its session, or resume the parked one."""
        ask = prepared.ask
        if prepared.reply is not None:
            return self._start_reply(prepared, prepared.reply, answer)
        if prepared.resumes is not None:
            turn = self._sessions.resume(prepared.resumes, answer, list(prepared.outputs))
            if turn is not None:
                return turn
            self._decisions.refuse(prepared.outputs)
            # The waiting turn has ended meanwhile. `ask` is complete for a new turn: it contains the results.
        if prepared.place is None:
            session = self._sessions.of(prepared.session_id, prepared.caller.name)
            return self._sessions.start(session, ask, answer)
        session, place = prepared.place
        try:
            return self._sessions.start(session, ask, answer, place)
        except Draining:
            session.fill(place, None)
            raise

    def _learn(self, prepared: Prepared, answer_id: str, end: Ended) -> None:
        """Record the conversation with its answer, for the client's next request."""
        if prepared.conversation is not None and end.said:
            entries = [*prepared.conversation, (str(Role.ASSISTANT), end.text, {})]
            held = ConversationEnd(prepared.session_id, answer_id)
            self._prefixes.learn(prepared.caller.name, digest_of(seed(prepared.ask), entries), held)

    def _start_reply(self, prepared: Prepared, reply: str, answer: AnswerStream) -> Turn:
        """Return a turn without an agent, whose answer is the reply of a command."""
        deps = self._sessions.deps
        turn = Turn(answer.id, prepared.ask, answer, TurnTimings(deps.clock))
        work = write_down(deps.store, turn, prepared.session_id, prepared.caller.name, reply, now=deps.wall())
        deps.tasks.start(work, f"reply {answer.id}")
        return turn

    def _ask(self, body: ResponseBody, said: InputConversation, key: TransportKey) -> Ask:
        functions = functions_of(body.tools, body.tool_choice)
        instructions = [text for text in (body.instructions, *said.instructions) if text]
        parts: tuple[PromptPart, ...] = tuple(said.parts)
        history: tuple[HistoryLine, ...] | None = None
        if body.conversation_history is not None:
            history = tuple(told_entries(brought(body.conversation_history, self._ids.make)))
        ask = Ask(
            key,
            parts,
            said.text,
            tuple(said.question),
            tuple(said.entries),
            history,
            "\n\n".join(instructions) or None,
            functions.definitions,
            "\n".join(hint for hint in (functions.hint, format_hint(body)) if hint),
            body.parallel_tool_calls is not False,
            remembered=self._remembers and body.store is not False,
        )
        return ask if said.question else replayed(ask, said)

    def _waiting(self, said: InputConversation, target: Target, caller: Caller) -> str | None:
        """Return the session whose turn waits for these results, or None."""
        if not said.outputs or said.question:
            return None
        session = self._sessions.waiting_for(said.outputs[0].call_id, caller.name)
        if session is None or (target.session is not None and target.session.id != session):
            return None
        self._sessions.check_outputs(session, [output.call_id for output in said.outputs])
        return session

    async def _check_outputs(self, said: InputConversation, target: Target) -> dict[str, str]:
        """Check that each result belongs to a call in this request, or to a call of the stored conversation without a
        result. Return the function names of the latter by call id."""
        asked = named_calls(said)
        store, session = self._sessions.deps.store, target.session
        calls = [] if session is None else await store.parked(session.id, waiting=False)
        known = {call.call_id: call for call in calls if call.call_id not in asked}
        for output in said.outputs:
            if output.call_id not in asked and output.call_id not in known:
                await self._explain(output.call_id, target)
        given = [known[output.call_id] for output in said.outputs if output.call_id in known]
        decided_here = decided(said.outputs)  # `PermissionAnswers` has checked these
        taken = continuity.answered_before(
            {call.call_id: call.state for call in given if call.call_id not in decided_here}
        )
        if taken:
            raise CallsAnswered(taken)
        return {call.call_id: call.name for call in given}

    async def _explain(self, call_id: str, target: Target) -> NoReturn:
        """Raise why a result is refused: its call has one already, belongs to another conversation, or is unknown."""
        call = await self._sessions.deps.store.parked_call(call_id) if target.session is None else None
        session = None if call is None else await self._sessions.deps.store.get_session(call.session_id)
        if call is not None and session is not None and (session.owner or "") == target.owner:
            if call.state == ParkState.ANSWERED:
                raise CallsAnswered([call_id])
            text = f"call {call_id[:100]!r} belongs to a conversation: name it, or the response that made the call"
            raise bad(text, "input")
        raise bad(f"no call and no question with the id {call_id[:100]!r} waits for an answer", "input")


def stateless(body: ResponseBody) -> bool:
    """Whether the request contains its whole conversation."""
    return body.conversation is None and body.previous_response_id is None and body.conversation_history is None


def whole(said: InputConversation) -> tuple[Entry, ...]:
    """Return everything that was said up to the answer."""
    results = [(str(Role.TOOL), output.text, output.item) for output in said.outputs]
    question: list[Entry] = [(str(Role.USER), said.text, {})] if said.question else []
    return (*said.entries, *results, *question)


def seed(ask: Ask) -> tuple[str | None, ...]:
    """Return what identifies a conversation besides its messages."""
    return (ask.key.provider, ask.key.model, ask.key.cwd, ask.instructions)


def check(body: ResponseBody) -> None:
    """Check what the types cannot express. Raises a 400."""
    if body.input is None or body.input in ("", []):
        raise bad("input is missing: send a string or a list of items", "input")
    if body.truncation not in (None, *TRUNCATIONS):
        raise bad("truncation must be auto or disabled", "truncation")
    if body.background and body.store is False:
        raise bad("a background response must be stored, or nobody could ever read it: leave store out", "background")


def replayed(ask: Ask, said: InputConversation) -> Ask:
    """Return the ask for a new turn, because the turn that waited for these results is gone: they become part of the
    conversation."""
    results = [(str(Role.TOOL), output.text, output.item) for output in said.outputs]
    settled = {*named_calls(said), *decided(said.outputs)}
    answers = tuple((output.call_id, output.text) for output in said.outputs if output.call_id not in settled)
    return replace(ask, parts=(TextPart(GO_ON),), text="", items=(), preface=(*ask.preface, *results), answers=answers)


def named_calls(said: InputConversation) -> set[str]:
    """Return the ids of calls and permission requests that the request itself contains."""
    named = (item.get(ASKED.get(item.get("type", ""), "")) for _, _, item in said.entries)
    return {ident for ident in named if isinstance(ident, str)}


def brought(history: list[JsonObject], new_id: Callable[[str], str]) -> tuple[Entry, ...]:
    """Return the `conversation_history` of a request as entries."""
    return whole(read_input([{"type": "message", **item} for item in history], new_id))


def input_items(said: InputConversation) -> list[JsonObject]:
    """Return all input items, in order."""
    return [*(item for _, _, item in said.entries), *(output.item for output in said.outputs), *said.question]


def format_hint(body: ResponseBody) -> str:
    """Return the instruction for the form of the answer: agents have no switch for it."""
    form = (body.text or {}).get("format")
    kind = form.get("type") if isinstance(form, dict) else None
    if kind == "json_object":
        return "[format] Answer with one JSON object and nothing else."
    if kind == "json_schema" and isinstance(form, dict):
        return f"[format] Answer with one JSON value and nothing else. It must match this schema: {form.get('schema')}"
    return ""
