"""Exclusive access to a session for commands that change its transcript, and the steps such commands share."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ostler.gateway.chat.conversation import ChatConversation
from ostler.gateway.model.ask import Ask
from ostler.gateway.model.outcome import TurnOutcome
from ostler.gateway.model.permits import PermissionRule
from ostler.gateway.model.records import NewSession, SessionRecord
from ostler.gateway.turns.answer import AnswerStream
from ostler.gateway.turns.session import Session
from ostler.gateway.turns.timings import TurnTimings
from ostler.gateway.turns.turn import Turn
from ostler.pool.prompt import TextPart


@asynccontextmanager
async def exclusive(conversation: ChatConversation, session: SessionRecord) -> AsyncIterator[Session]:
    """Keep every other turn and command off the transcript. Raises `TurnRunning` while a turn of any surface runs."""
    live = conversation.sessions.of(session.id, session.owner or "")
    async with conversation.sessions.held(live):
        yield live


async def aside(conversation: ChatConversation, live: Session, text: str) -> tuple[TurnOutcome, str]:
    """Prompt the session's agent without a trace in the transcript. Permission requests are denied."""
    deps = conversation.sessions.deps
    ask = Ask(
        await conversation.transport_key(), (TextPart(text),), text, (), rule=PermissionRule.DENY, witnessed=False
    )
    name = deps.ids.make("turn")
    turn = Turn(name, ask, AnswerStream(name), TurnTimings(deps.clock))
    outcome = await live.aside(turn)
    return outcome, turn.answer.text


def offspring(conversation: ChatConversation, parent: SessionRecord, origin: str) -> NewSession:
    """A child session: same key, place, model, directory, instructions and metadata."""
    fresh = conversation.fresh()
    return NewSession(
        fresh.id,
        parent.key,
        parent.platform,
        parent.owner,
        parent.chat,
        parent.id,
        origin,
        parent.model,
        parent.cwd,
        parent.instructions,
        parent.metadata or None,
    )
