"""Answers the permission requests of an agent.

Rules: without a number, /approve and /deny answer the oldest request; a number is the position among the open ones;
`all` answers all. A trailing `always` also allows everything of the same kind in this session (all edits, all commands,
or one tool); it ends with the session or when the gateway restarts.
"""

from ostler.gateway.chat.conversation import ChatConversation
from ostler.gateway.turns.pending_calls import Permission

NOTHING = "The agent asks for nothing."


def decide(conversation: ChatConversation, which: str, *, allow: bool) -> str:
    """Answer the requests that `which` selects; return the reply for the user."""
    at_work = conversation.at_work
    asked = at_work.pending_permissions() if at_work is not None else []
    if at_work is None or not asked:
        return NOTHING
    which, always = which.removesuffix("always").strip(), allow and which.endswith("always")
    chosen = meant(asked, which)
    if chosen is None:
        waiting = "; ".join(f"{place}. {permission.title}" for place, permission in enumerate(asked, 1))
        return f"Use a number or all{', and always' if allow else ''}. The agent asks: {waiting}"
    answered = [each.title for each in chosen if at_work.answer_permission(each.id, allow=allow, always=always)]
    word = "Denied" if not allow else "Allowed for this session" if always else "Allowed"
    return f"{word}: {', '.join(answered)}." if answered else NOTHING


def meant(asked: list[Permission], which: str) -> list[Permission] | None:
    """The selected requests; None if `which` is invalid."""
    if which == "all":
        return asked
    place = int(which[:9]) if which.isascii() and which.isdigit() else 0 if which else 1
    return asked[place - 1 : place] if 1 <= place <= len(asked) else None
