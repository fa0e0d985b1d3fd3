"""The parts of the console that only compute: what is kept of a turn, who is signed in, who may steer, what is seen."""

import itertools
import os
import re
from html.parser import HTMLParser
from typing import Any, cast

import pytest

from ostler.gateway.config.keys import Caller, KeyRing, digest, key_ring
from ostler.gateway.config.settings import AuthSettings, KeySettings
from ostler.gateway.model.correlation import NONE
from ostler.gateway.model.outcome import TurnOutcome, TurnStatus, failed
from ostler.gateway.ops.console.browser_sessions import HOURS, MOST, BrowserSessions, cookie_of
from ostler.gateway.ops.console.console_text import HOLDS, table
from ostler.gateway.ops.console.cookie_login import fields, network_of
from ostler.gateway.ops.console.errors import TooManyWatchers
from ostler.gateway.ops.console.html_page import HtmlPage, hashed
from ostler.gateway.ops.console.status_html import status_body
from ostler.gateway.ops.console.status_view import WATCHERS, StatusSources, StatusView, without_ages
from ostler.gateway.ops.console.turns import FAILURES, PHASES, TURNS, RecentTurns
from ostler.gateway.server.admin_socket import familiar
from ostler.gateway.turns.reports import TurnReport
from ostler.gateway.turns.timings import TurnTimings
from ostler.pool.core.reasons import Hold
from ostler.pool.keys import TransportKey

KEY = TransportKey("demo", "demo", "/tmp")
EVIL = '<img src=x onerror="alert(1)">\'&'


def report(outcome: TurnOutcome, number: int = 0) -> TurnReport:
    facts = {"spawn": 1.5, "bridge": 0.0, "session_new": 2.0, "first_tool": 0.0, "generation": 4.0,
             "transport": "pool", "warmth": "cold", "session_id": "sess_secret"}  # fmt: skip
    return TurnReport(
        "sess_secret", f"resp_{'0' * 24}{number:08x}", KEY, outcome, facts, TurnTimings(lambda: 0.0), NONE
    )


def test_a_past_turn_names_no_session_and_no_whole_id_and_no_secret() -> None:
    recent = RecentTurns(lambda: 7.0)
    recent.turn_ended(report(failed("agent_error", "refused: api_key=sk-abcdefghijklmnop1234"), 0xABC))
    (turn,) = recent.failures
    kept = str(turn.as_json())
    assert "sess_secret" not in kept
    assert "0" * 24 not in kept
    assert "abcdefghijklmnop" not in kept
    assert (turn.turn, turn.total, turn.at) == ("00000abc", 7.5, 7.0)


def test_the_rings_are_bounded() -> None:
    recent = RecentTurns(lambda: 0.0)
    for number in range(200):
        recent.turn_ended(report(failed("x", "y") if number % 2 else TurnOutcome(TurnStatus.COMPLETED), number))
    assert (len(recent.turns), len(recent.failures)) == (TURNS, FAILURES)
    assert recent.outcomes == {"completed": 100, "failed": 100}


def guests(now: list[float]) -> BrowserSessions:
    ring = KeyRing(((digest("the-key"), Caller("ops", admin=True)),))
    numbers = itertools.count()
    return BrowserSessions(ring, lambda: now[0], lambda: f"cookie-{next(numbers)}")


def test_a_guest_stays_for_hours_or_until_he_leaves() -> None:
    now = [0.0]
    known = guests(now)
    assert known.admit("wrong") is None
    first, second = known.admit("the-key"), known.admit("the-key")
    assert first is not None
    assert second is not None
    assert [known.caller(one) and known.caller(one).name for one in (first, second, "made-up")] == ["ops", "ops", None]
    known.leave(first)
    assert known.caller(first) is None
    now[0] = HOURS
    assert known.caller(second) is None


def test_a_guest_goes_with_his_key() -> None:
    known = guests([0.0])
    cookie = known.admit("the-key")
    assert cookie is not None
    known.keys = KeyRing(((digest("another"), Caller("x")),))
    assert known.caller(cookie) is None


def test_guests_are_bounded() -> None:
    known = guests([0.0])
    cookies = [known.admit("the-key") for _ in range(MOST + 1)]
    assert known.caller(str(cookies[0])) is None
    assert known.caller(str(cookies[-1])) is not None


def test_cookies_origins_and_forms_are_read_carefully() -> None:
    assert cookie_of({b"cookie": b"a=b; ostler_guest=xyz; c=d"}) == "xyz"
    assert cookie_of({b"cookie": b"ostler_guest=; other"}) is None
    assert cookie_of({}) is None
    assert fields(b"a=1&a=2&b=%C3%A4&c") == {"a": "2", "b": "ä", "c": ""}


def test_only_keys_that_say_so_are_operators() -> None:
    named = [
        KeySettings(name=name, sha256=f"{place:064x}", admin=name == "ops") for place, name in enumerate(("ops", "app"))
    ]
    ring = key_ring(AuthSettings(api_key="the one key of a person", keys=named))
    assert [caller.admin for _, caller in ring.entries] == [False, True, False]
    assert not ring.anyone.admin
    assert key_ring(AuthSettings()).anyone.admin


@pytest.mark.parametrize(("uid", "allowed"), [(None, True), (0, True), (os.geteuid() + 1, False)])
def test_n53_the_socket_is_for_our_own_user(uid: int | None, allowed: bool) -> None:
    assert familiar(uid) is allowed


class Reader(HTMLParser):
    """Every tag and attribute of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen += [(tag, name) for name, _ in attrs] or [(tag, "")]


def evil_state() -> dict[str, Any]:
    """Every text of it is an attack."""
    process = {"process": 1, "pid": 2, "state": EVIL, "retired_for": EVIL, "age": 1.0, "unused_for": 1.0, "leased": 1,
               "parked": 1, "opening": 0, "capacity": 3, "served": 1, "leaked": 1, "memory": 5,
               "memory_charged": 5}  # fmt: skip
    key = {"key": EVIL, "name": EVIL, "provider": EVIL, "model": EVIL, "cwd": EVIL, "own_process": False, "owner": EVIL,
           "paused": False, "waiting": 1, "processes_wanted": 1, "start_failures": 1, "retry_in": 2.0,
           "last_failure": EVIL, "target": 1, "floor": 0, "parked": 1, "leased": 1, "opening": 0,
           "arrivals_per_minute": 1.0, "processes": [process]}  # fmt: skip
    turn = {"at": 0.0, "turn": EVIL, "provider": EVIL, "model": EVIL, "status": EVIL, "warmth": EVIL,
            "transport": "agent", "error": EVIL, "reason": EVIL, "session": EVIL, "owner": EVIL,
            "ms": dict.fromkeys((*PHASES, "total"), 1.0)}  # fmt: skip
    census = {"processes": 1, "max_processes": 8, "leased": 1, "parked": 1, "waiting": 1, "memory": 5,
              "memory_budget": None}  # fmt: skip
    failure = {"key": EVIL, "kind": EVIL, "text": EVIL, "stderr": [EVIL], "age": 90.0}
    return {"ready": True, "draining": False, "paused": False, "enabled": True, "running_turns": 0, "uptime": 1.0,
            "census": census, "claims": {EVIL: 1}, "first_turns": {"all": 1, "at_once": 1},
            "problems": [EVIL], "spares": [], "keys": [key], "turns": [turn], "failed_turns": [turn],
            "failures": [failure]}  # fmt: skip


def test_no_text_of_the_pool_becomes_markup() -> None:
    reader = Reader()
    reader.feed(status_body(evil_state(), "token", EVIL, signed_in=True))
    assert not {tag for tag, _ in reader.seen} & {"img", "script"}
    assert not {name for _, name in reader.seen if name.startswith("on") or name in ("style", "src")}


def test_a_page_allows_exactly_what_it_holds() -> None:
    page = HtmlPage().page("<x>", "<p>body</p>", script="status")
    policy = page.headers["content-security-policy"]
    (style,), (script,) = (re.findall(rf"<{tag}>(.*?)</{tag}>", page.html, re.DOTALL) for tag in ("style", "script"))
    assert f"style-src {hashed(style)};" in policy
    assert policy.endswith(f"script-src {hashed(script)}")
    assert "unsafe" not in policy
    assert "<title>&lt;x&gt; - ostler" in page.html
    assert not re.search(r"(?:https?:)?//\w", page.html.replace("http://www.w3.org", ""))
    assert "script-src" not in HtmlPage().page("x", "", script=None).headers["content-security-policy"]


def test_ages_are_no_change() -> None:
    old, new = ({"uptime": one, "keys": [{"age": one, "state": "ready"}]} for one in (1, 2))
    assert without_ages(old) == without_ages(new) == {"keys": [{"state": "ready"}]}


def test_columns_are_as_wide_as_they_must_be() -> None:
    assert table(("A", "LONG"), [("xxx", "y")]) == ["A    LONG", "xxx  y"]


def test_a_place_among_those_who_look_is_taken_at_once_and_free_when_nobody_has_it() -> None:
    """A stream that was never begun (its client left first) has no end that could give its place back."""
    nothing = cast("Any", None)
    board = StatusView(StatusSources(nothing, nothing, nothing, "1", lambda: 0.0, lambda: 0.0))
    watches = [board.watch() for _ in range(WATCHERS)]
    with pytest.raises(TooManyWatchers):
        board.watch()
    watches.pop()
    watches.append(board.watch())
    board.leave(watches[0])
    board.leave(watches[0])
    watches.append(board.watch())
    with pytest.raises(TooManyWatchers):
        board.watch()


def test_every_hold_has_words() -> None:
    assert set(HOLDS) == {hold.value for hold in Hold}


@pytest.mark.parametrize(
    ("address", "network"),
    [
        (("192.0.2.1", 5), "192.0.2.1"),
        (("2001:db8:1:2:3:4:5:6", 5), "2001:0db8:0001:0002"),
        (("::ffff:192.0.2.1", 5), "::ffff:192.0.2.1"),
        (("unix", 0), "unix"),
        (None, ""),
    ],
)
def test_n36_an_address_stands_for_whoever_has_all_that_begin_alike(address: object, network: str) -> None:
    assert network_of({"type": "http", "client": address}) == network
