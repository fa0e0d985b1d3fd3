"""How permission requests of agents are decided.

Rules:
- `allow` takes the narrowest yes (allow_once before allow_always), `deny` the narrowest no.
- `ask` waits for a person at most `deadline` seconds; silence is a no. A no is given with the agent's own reject option
  when it offers one: the answer "cancelled" would end the whole turn at several agents.
- A policy is asked once per request and answers for that request only; no answer is remembered.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from ostler.pool.events import PermissionAsked, PermissionOption
from ostler.pool.ports import PermissionChoice, PermissionPolicy
from ostler.wire.public_names import renamed

AskPerson = Callable[[str, PermissionAsked], Awaitable[str | None]]
"""Shows a request to a person; returns the id of an option, or None to cancel the request."""

YES = ("allow_once", "allow_always")
NO = ("reject_once", "reject_always")


def first_of(kinds: Sequence[str], options: Sequence[PermissionOption]) -> str | None:
    """The id of the first offered option of the most preferred kind."""
    for kind in kinds:
        for option in options:
            if option.kind == kind:
                return option.id
    return None


async def allow(_session_id: str, asked: PermissionAsked) -> PermissionChoice:
    """Policy that says yes to every request."""
    return PermissionChoice(first_of(YES, asked.options), "allow")


async def deny(_session_id: str, asked: PermissionAsked) -> PermissionChoice:
    """Policy that says no to every request."""
    return PermissionChoice(first_of(NO, asked.options), "deny")


def ask(person: AskPerson, *, deadline: float) -> PermissionPolicy:
    """Policy that lets a person decide within `deadline` seconds."""
    if deadline <= 0:
        raise ValueError(f"a person needs time to answer: the deadline must be above 0 s, not {deadline}")

    async def decide(session_id: str, asked: PermissionAsked) -> PermissionChoice:
        try:
            async with asyncio.timeout(deadline):
                chosen = await person(session_id, asked)
        except TimeoutError:
            return PermissionChoice(first_of(NO, asked.options), "timeout")
        if chosen is not None and all(option.id != chosen for option in asked.options):
            return PermissionChoice(first_of(NO, asked.options), "unknown_option")
        return PermissionChoice(chosen, "person")

    return decide


__getattr__ = renamed(__name__, {"Person": "AskPerson"})
