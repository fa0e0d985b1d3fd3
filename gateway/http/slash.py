"""Slash commands on the OpenAI API, if `gateway.commands_on_openai_api` is set. Otherwise a slash is text.

Rules:
- A request is a command only if its question is a single text. It runs in the conversation that the request leads to: a
  slug, a previous response, or none yet.
- Commands of one conversation run in the order of their arrival.
- A command that moves the conversation moves its slug. The reply is a response like any other, and a request that
  continues from it continues where the command led.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from ostler.gateway.chat.commands.registry import CommandCall, CommandReply, CommandWords, Registry, parse
from ostler.gateway.chat.conversation import ChatConversation
from ostler.gateway.chat.deps import ChatDeps
from ostler.gateway.chat.session_keys import SessionKey
from ostler.gateway.config.keys import Caller
from ostler.gateway.http.items import read_input
from ostler.gateway.http.session_finder import PLATFORM, SessionFinder, Target
from ostler.gateway.model.api_error import ApiError, bad
from ostler.gateway.model.ask import Ask
from ostler.gateway.model.continuity import Way
from ostler.gateway.model.errors import RequestRefused, StoreError
from ostler.gateway.model.keyed_locks import KeyedLocks
from ostler.gateway.model.outcome import TurnOutcome, TurnStatus
from ostler.gateway.model.records import SessionRecord, TurnCommit
from ostler.gateway.model.store import Store
from ostler.gateway.turns.faults import fault
from ostler.gateway.turns.turn import Turn
from ostler.pool.events import Text
from ostler.pool.prompt import PromptPart, TextPart
from ostler.wire.json import JsonObject

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Obeyed:
    """The result of a command."""

    session_id: str
    """The session in which the conversation continues."""
    ask: Ask
    text: str | None
    """The reply; None if the agent is prompted instead."""


@dataclass(frozen=True, slots=True)
class Slash:
    """Runs slash commands for the OpenAI API. The composition root makes it once, if commands are enabled."""

    commands: Registry
    chat_deps: ChatDeps
    locks: KeyedLocks = field(default_factory=KeyedLocks)

    def asks(self, given: str | Sequence[JsonObject]) -> bool:
        """Whether this input may prompt an agent. A command that prompts none runs even if the concurrency limit is
        reached."""
        try:
            said = read_input(given, str)
        except ApiError:
            return True  # It contains a reference or is invalid; the full check follows later.
        return self.commands.asks(called(said.parts))

    async def obey(self, parts: list[PromptPart], target: Target, caller: Caller) -> Obeyed | None:
        """Run the command in the question; None if it is text."""
        words = called(parts)
        if words is None:
            return None
        deps = self.chat_deps.sessions.deps
        if await self._forks(target):
            raise bad("a command acts on the end of a conversation: this response is not its latest",
                      "previous_response_id")  # fmt: skip
        name = target.session.id if target.session is not None else deps.ids.make("request")
        key = SessionKey(caller.name, f"api:{name}" if target.slug is None else f"api:slug:{target.slug}", PLATFORM)
        # One lock for the conversation, whether the request names its slug or a response of it.
        async with self.locks.hold(target.session.id if target.session is not None else key.stored):
            present, led = await self._present(target, caller)
            conversation = await self._conversation(key, present, caller)
            reply = await self._run(words, conversation)
            session = await conversation.begun()
            if target.slug is not None and session.id != led:
                await conversation.store.move_conversation(target.slug, led, session.id, owner=caller.name)
        return await self._obeyed(session, reply, conversation)

    async def _obeyed(self, session: SessionRecord, reply: CommandReply, conversation: ChatConversation) -> Obeyed:
        key = await conversation.transport_key()
        if reply.ask is not None:
            return Obeyed(session.id, reply.ask.ask(key, conversation.rule(key)), None)
        return Obeyed(session.id, Ask(key, (), "", ()), reply.text)

    async def _run(self, words: CommandWords, conversation: ChatConversation) -> CommandReply:
        command = self.commands.find(words.name)
        if command is None:
            return CommandReply(self.commands.unknown(words.name))
        try:
            return await command.run(CommandCall(words, conversation, self.commands))
        except (RequestRefused, ApiError) as error:
            return CommandReply(str(error))

    async def _forks(self, target: Target) -> bool:
        """Whether the session has continued since the response that the request names."""
        if target.after is None or target.session is None:
            return False
        finder = SessionFinder(self.chat_deps.sessions)
        return await finder.way_on(target.session, target.after, joined=True) is not Way.GO_ON

    async def _present(self, target: Target, caller: Caller) -> tuple[SessionRecord | None, str | None]:
        """Return the conversation's present session, and the one its slug leads to: an earlier command may have moved
        it."""
        store = self.chat_deps.sessions.deps.store
        row = None if target.slug is None else await store.get_conversation(target.slug, owner=caller.name)
        if row is None or row.session_id is None:
            return target.session, None if target.session is None else target.session.id
        return await store.live_end(row.session_id), row.session_id

    async def _conversation(self, key: SessionKey, session: SessionRecord | None, caller: Caller) -> ChatConversation:
        """Return the API's conversation as a session key that leads to its session: commands know only session keys."""
        if session is not None:
            await self.chat_deps.sessions.deps.store.set_route(key.stored, session.id, platform=PLATFORM)
        return ChatConversation(self.chat_deps, key, caller, session, session.id if session else None)


def called(parts: Sequence[PromptPart]) -> CommandWords | None:
    """Return the command in a question; None for text."""
    return parse(parts[0].text) if len(parts) == 1 and isinstance(parts[0], TextPart) else None


async def write_down(store: Store, turn: Turn, session_id: str, owner: str, reply: str, *, now: float) -> None:
    """Store a command's reply as an answer; only then tell the client."""
    answer = turn.answer
    try:
        answer.start()
        answer.take(Text(reply))
        kept = answer.close(TurnOutcome(TurnStatus.COMPLETED), [], now)
        await store.commit_turn(TurnCommit(session_id, (), kept.response, kept.slug, owner, (), kept.answer))
    except StoreError as error:
        log.error("the reply %s to a command is not stored: %s", turn.id, error)  # noqa: TRY400 - the error says it all
        answer.close(fault(error), [], now)
    finally:
        turn.over.set()
    answer.publish()
