"""`/resume`: continue an earlier session, even one with only a mirror left. Without arguments, list titled ones."""

import logging

from ostler.gateway.chat.commands.registry import ChatCommand, CommandCall, CommandReply
from ostler.gateway.chat.lists import counted, name_of, session_lines
from ostler.gateway.chat.session_lookup import aimed, words_of
from ostler.gateway.chat.visibility import previews, remember_list, remembered_list, visible_sessions
from ostler.gateway.model.errors import StoreError
from ostler.gateway.model.observers import SwitchReason
from ostler.gateway.model.records import EndReason, SessionRecord

log = logging.getLogger(__name__)
MOST = 10
LOOKED_AT = 200
HINT = (
    "No session has a title yet. /title NAME gives this one a name that /resume NAME finds; /sessions lists them all."
)


async def run(call: CommandCall) -> CommandReply:
    """Switch to the session, or reply why not; in that case nothing is changed."""
    conversation, words = call.conversation, words_of(call.args)
    if not words.text:
        return await listing(call)
    listed = await remembered_list(conversation) if words.number is not None else []
    if listed is None:
        listed = [session.id for session in await titled(call)]
    await conversation.rescued(words.text)
    target = await aimed(conversation.store, words, visible_sessions(conversation), listed)
    left = conversation.session
    if left is not None and target.id == left.id:
        return CommandReply(f"You are in {name_of(target)} already.", ({"type": "session", "id": target.id},))
    session = await conversation.switch_to(target.id, SwitchReason.RESUME)
    text = f"You are back in {name_of(session)}{await holding(call, session)}."
    return CommandReply(text, ({"type": "session", "id": session.id, "left": left.id if left else None},))


async def holding(call: CommandCall, session: SessionRecord) -> str:
    """How many messages of the user the session has. The switch is already made, so a failed count is only left out."""
    try:
        said = (await call.conversation.store.counts(session.id)).users
    except StoreError as error:
        log.warning("session %s is resumed and cannot be counted: %s", session.id, error)
        return ""
    return f", with {counted(said, 'message')} of yours"


async def listing(call: CommandCall) -> CommandReply:
    """List the sessions that have a title, and remember their numbers."""
    conversation = call.conversation
    found = await titled(call)
    await remember_list(conversation, found)
    if not found:
        return CommandReply(HINT)
    here = conversation.session
    lines = session_lines(
        found,
        await previews(conversation, found),
        now=conversation.sessions.deps.wall(),
        current=here.id if here else None,
    )
    return CommandReply("\n".join([*lines, "/resume with a number, a title or an id goes there."]), rows(found))


async def titled(call: CommandCall) -> list[SessionRecord]:
    """Sessions with a title, the last active first. A compressed session is left out: its continuation has the next
    title."""
    conversation = call.conversation
    found = await conversation.store.list_sessions(visible_sessions(conversation, titled=True), limit=LOOKED_AT)
    return [session for session in found if session.end_reason != EndReason.COMPRESSION][:MOST]


def rows(sessions: list[SessionRecord]) -> tuple[dict[str, object], ...]:
    """The list for programs."""
    return tuple({"type": "session", "id": session.id, "title": session.title} for session in sessions)


COMMAND = ChatCommand("resume", "go on with an earlier session; alone, list those with a title", run,
                  usage="[TITLE | ID | NUMBER]")  # fmt: skip
