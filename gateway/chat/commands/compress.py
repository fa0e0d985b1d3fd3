"""`/compress`: have the agent summarise the conversation, and continue in a session that begins with the summary.

Rules:
- Exactly one prompt is sent, to the session's own agent, which knows the conversation. The transcript does not show it.
- The new session has the summary and the last turns unchanged; the old session ends, complete and searchable. Both
  happen in one step in the store: a failure before it changes nothing and notifies no observer.
"""

from collections.abc import Sequence

from ostler.gateway.chat.commands.registry import ChatCommand, CommandCall, CommandReply
from ostler.gateway.chat.exclusive import aside, exclusive, offspring
from ostler.gateway.chat.lists import counted, name_of
from ostler.gateway.chat.rewinding import FEWEST, Cut, cut
from ostler.gateway.model.errors import GatewayError, StoreError
from ostler.gateway.model.observers import SwitchReason
from ostler.gateway.model.outcome import TurnOutcome, TurnStatus
from ostler.gateway.model.records import EndReason, MessageRecord, NewMessage, Role, SessionOrigin, SessionRecord

PREVIEW = "--preview"
PROMPT = (
    "Sum up our whole conversation so far, so that you could go on from the summary alone: what I want, what was"
    " decided and why, names, paths, numbers and code that matter, what is open. Write the summary only, call no tools."
)
HEADING = "[summary of the conversation before]\n"
KEPT = "This session goes on as it was."


async def run(call: CommandCall) -> CommandReply:
    """Summarise and switch, or reply why not."""
    conversation, session = call.conversation, call.conversation.session
    if call.args not in {"", PREVIEW}:
        return CommandReply(f"Use /compress, or /compress {PREVIEW} to see what it would do.")
    messages = [] if session is None else await conversation.store.history(session.id)
    parted = cut(messages)
    if session is None or parted is None:
        return CommandReply(
            f"There is too little to compress: {counted(len(messages), 'message')}, at least {FEWEST} are needed."
        )
    if call.args == PREVIEW:
        return CommandReply(plan(parted))
    return await compressed(call, session)


async def compressed(call: CommandCall, session: SessionRecord) -> CommandReply:
    """Summarise and switch while nothing else may change the conversation."""
    conversation = call.conversation
    async with exclusive(conversation, session) as live:
        messages = await conversation.store.history(session.id)
        parted = cut(messages)
        if parted is None:
            return CommandReply(f"Nothing was compressed: the conversation was changed meanwhile. {KEPT}")
        outcome, summary = await aside(conversation, live, PROMPT)
        if outcome.status is not TurnStatus.COMPLETED or not summary.strip():
            return CommandReply(f"Nothing was compressed: {why(outcome)}. {KEPT}")
        try:
            child = await begin_from(call, session, summary, parted.kept, messages[-1].id)
        except StoreError as error:
            return CommandReply(f"Nothing was compressed: {error}. {KEPT}")
        conversation.follow(child, SwitchReason.COMPRESSION)
    named = await name_child(call, session, child)
    text = f"{counted(len(parted.old), 'message')} summed up; you go on in {named}."
    return CommandReply(text, ({"type": "session", "id": child.id, "left": session.id, "summary": summary},))


async def begin_from(
    call: CommandCall, session: SessionRecord, summary: str, kept: Sequence[MessageRecord], behind: int
) -> SessionRecord:
    """Create the child session and lead the key to it, in one step. Messages added after message `behind` are carried
    over."""
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": summary}]}
    opening = NewMessage(Role.SYSTEM, [item], HEADING + summary.strip())
    return await call.conversation.store.derive_session(
        session.id,
        offspring(call.conversation, session, SessionOrigin.COMPRESSION),
        messages=[opening, *(message.again() for message in kept)],
        end_parent=EndReason.COMPRESSION,
        behind=behind,
    )


async def name_child(call: CommandCall, session: SessionRecord, child: SessionRecord) -> str:
    """Give the child the next title of the lineage. The session works without a title, so a failure is only
    reported."""
    if session.title is None:
        return name_of(child)
    store = call.conversation.store
    try:
        title = await store.next_title(session.title, owner=session.owner)
        call.conversation.session = child = await store.set_title(child.id, title)
    except GatewayError as error:
        return f"{child.id} (without a title: {error})"
    return name_of(child)


def plan(parted: Cut) -> str:
    """The reply to `--preview`."""
    size = sum(len(message.text) for message in parted.old)
    return (
        f"{counted(len(parted.old), 'message')} with {counted(size, 'character')} would be summed up,"
        f" {counted(len(parted.kept), 'message')} kept as they are. Nothing was done."
    )


def why(outcome: TurnOutcome) -> str:
    """Why there is no summary."""
    if outcome.status is TurnStatus.COMPLETED:
        return "the agent said nothing"
    return outcome.message or {TurnStatus.CANCELLED: "it was stopped"}.get(outcome.status, outcome.reason)


COMMAND = ChatCommand(
    "compress", "sum up what was said and go on from the summary", run, usage=f"[{PREVIEW}]", asks=True
)
