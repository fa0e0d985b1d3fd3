"""`/resume`: go on with an earlier session, also one that only a mirror remembers. Alone it lists those with titles."""

from ostler.gateway.commands.registry import Call, Command, Reply
from ostler.gateway.records import EndReason, SessionRecord
from ostler.gateway.sessions.witness import Switch
from ostler.gateway.talk.aim import aimed, words_of
from ostler.gateway.talk.lists import counted, name_of, session_lines
from ostler.gateway.talk.reach import previews, reach, remember_list, remembered_list

MOST = 10
LOOKED_AT = 200
HINT = (
    "No session has a title yet. /title NAME gives this one a name that /resume NAME finds; /sessions lists them all."
)


async def run(call: Call) -> Reply:
    """Switch; or say why not, with nothing changed."""
    conversation, words = call.conversation, words_of(call.args)
    if not words.text:
        return await listing(call)
    listed = await remembered_list(conversation) if words.number is not None else []
    if listed is None:
        listed = [session.id for session in await titled(call)]
    await conversation.rescued(words.text)
    target = await aimed(conversation.store, words, reach(conversation), listed)
    left = conversation.session
    if left is not None and target.id == left.id:
        return Reply(f"You are in {name_of(target)} already.", ({"type": "session", "id": target.id},))
    session = await conversation.switch_to(target.id, Switch.RESUME)
    said = (await conversation.store.counts(session.id)).users
    text = f"You are back in {name_of(session)}, with {counted(said, 'message')} of yours."
    return Reply(text, ({"type": "session", "id": session.id, "left": left.id if left else None},))


async def listing(call: Call) -> Reply:
    """What can be resumed by its title."""
    conversation = call.conversation
    found = await titled(call)
    await remember_list(conversation, found)
    if not found:
        return Reply(HINT)
    here = conversation.session
    lines = session_lines(
        found,
        await previews(conversation, found),
        now=conversation.sessions.house.wall(),
        current=here.id if here else None,
    )
    return Reply("\n".join([*lines, "/resume with a number, a title or an id goes there."]), rows(found))


async def titled(call: Call) -> list[SessionRecord]:
    """The last active first, each conversation once: what was compressed lives on under its next title."""
    conversation = call.conversation
    found = await conversation.store.list_sessions(reach(conversation, titled=True), limit=LOOKED_AT)
    return [session for session in found if session.end_reason != EndReason.COMPRESSION][:MOST]


def rows(sessions: list[SessionRecord]) -> tuple[dict[str, object], ...]:
    """The same for programs."""
    return tuple({"type": "session", "id": session.id, "title": session.title} for session in sessions)


COMMAND = Command("resume", "go on with an earlier session; alone, list those with a title", run,
                  usage="[TITLE | ID | NUMBER]")  # fmt: skip
