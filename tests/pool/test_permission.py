"""Who says yes, who says no, and what silence says."""

import asyncio

import pytest

from ostler.pool.events import PermissionAsked, PermissionOption
from ostler.pool.permission import allow, ask, deny
from ostler.pool.ports import PermissionChoice

ALWAYS, ONCE = PermissionOption("aa", "", "allow_always"), PermissionOption("a", "", "allow_once")
NO, NEVER = PermissionOption("r", "", "reject_once"), PermissionOption("rr", "", "reject_always")
FULL = PermissionAsked("p1", "t", [ALWAYS, NEVER, ONCE, NO])
YES_ONLY = PermissionAsked("p1", "t", [ALWAYS])


async def silent(_session: str, _asked: PermissionAsked) -> str | None:
    await asyncio.Event().wait()
    return None


async def test_the_narrowest_yes_and_the_narrowest_no() -> None:
    assert await allow("s", FULL) == PermissionChoice("a", "allow")
    assert await deny("s", FULL) == PermissionChoice("r", "deny")
    assert await allow("s", YES_ONLY) == PermissionChoice("aa", "allow")


async def test_a_no_without_a_reject_option_cancels() -> None:
    assert await deny("s", YES_ONLY) == PermissionChoice(None, "deny")


async def test_w39c_silence_selects_the_reject_option() -> None:
    assert await ask(silent, deadline=0.001)("s", FULL) == PermissionChoice("r", "timeout")


async def test_a_person_decides() -> None:
    async def person(session: str, asked: PermissionAsked) -> str | None:
        assert (session, asked) == ("s", FULL)
        return "aa"

    assert await ask(person, deadline=9)("s", FULL) == PermissionChoice("aa", "person")


async def test_an_option_that_was_not_offered_is_a_no() -> None:
    async def person(_session: str, _asked: PermissionAsked) -> str | None:
        return "something else"

    assert await ask(person, deadline=9)("s", FULL) == PermissionChoice("r", "unknown_option")


@pytest.mark.parametrize("deadline", [0, -1])
def test_a_person_needs_time(deadline: float) -> None:
    with pytest.raises(ValueError, match="deadline"):
        ask(silent, deadline=deadline)
