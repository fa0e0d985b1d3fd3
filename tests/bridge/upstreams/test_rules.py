"""Restarts, settings and the missing extra: what is decided without a server."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.bridge.upstreams.restarts import Restarts
from ostler.bridge.upstreams.settings import UpstreamMisconfigured, UpstreamSettings


def test_the_pause_doubles_until_the_breaker_opens() -> None:
    restarts = Restarts(first=1, longest=6, threshold=5, cooldown=100)
    pauses = [restarts.ended(ran=0, draw=1) for _ in range(7)]
    assert pauses == [1, 2, 4, 6, 100, 100, 100]
    assert restarts.open


def test_a_run_that_lasted_closes_the_breaker_and_one_that_did_not_does_not() -> None:
    restarts = Restarts(threshold=2, stable_after=30, cooldown=100, first=1)
    for _ in range(3):
        restarts.ended(ran=29.9, draw=1)
    assert restarts.open
    assert restarts.ended(ran=30, draw=1) == 1
    assert not restarts.open


@given(st.integers(1, 40), st.floats(0, 1, exclude_max=True))
def test_jitter_is_half_to_all_and_never_beyond_the_limits(failures: int, draw: float) -> None:
    plain, drawn = Restarts(), Restarts()
    for _ in range(failures):
        whole, pause = plain.ended(ran=0, draw=1), drawn.ended(ran=0, draw=draw)
    assert whole / 2 <= pause <= whole
    assert whole <= max(drawn.longest, drawn.cooldown)


def test_settings_come_from_a_table() -> None:
    table = {"command": ["npx", "server"], "env": {"KEY": "secret"}, "deny": ["rm*"], "per_session": True, "timeout": 5}
    settings = UpstreamSettings.of("files", table)
    assert settings == UpstreamSettings(
        name="files", command=("npx", "server"), env={"KEY": "secret"}, deny=("rm*",), per_session=True, timeout=5.0
    )
    assert "secret" not in repr(settings)
    assert settings.shown("read") == "files_read"


@pytest.mark.parametrize(
    ("name", "table", "message"),
    [
        ("a", {}, r"\[tools.mcp.a\]: give either command or url"),
        ("a", {"command": ["x"], "url": "http://x"}, "give either command or url"),
        ("a", {"url": "ftp://x"}, "url must be http or https"),
        ("a b", {"command": ["x"]}, "a name is"),
        ("a", {"command": "x"}, "command: expected array, got string$"),
        ("a", {"command": ["x"], "envy": {}}, "envy: unknown, got object; known here: .*env"),
        ("a", {"command": ["x"], "alow": []}, "alow: unknown"),
        ("a", {"command": ["x"], "timeout": "5"}, "timeout: expected number"),
        ("a", {"command": ["x"], "cwd": "here"}, "cwd must be absolute"),
    ],
)
def test_mistakes_name_the_server_and_the_key(name: str, table: dict[str, Any], message: str) -> None:
    with pytest.raises(UpstreamMisconfigured, match=message):
        UpstreamSettings.of(name, table)


@pytest.mark.parametrize(
    "table",
    [
        {"url": "http://x", "headers": "Authorization: hidden"},
        {"url": "http://x", "headers": {"Authorization": ["hidden"]}},
        {"command": ["x"], "env": "KEY=hidden"},
        {"command": "x --api-key hidden"},
        {"url": ["http://ann:hidden@x"]},
    ],
)
def test_w11_a_mistake_shows_no_secret(table: dict[str, Any]) -> None:
    with pytest.raises(UpstreamMisconfigured) as caught:
        UpstreamSettings.of("a", table)
    assert "hidden" not in str(caught.value)


def test_a_tool_name_that_no_model_may_call_is_not_shown() -> None:
    settings = UpstreamSettings(name="a", command=("x",))
    assert settings.offers("read")
    assert not settings.offers("read.file")
    assert not settings.offers("x" * 63)


def test_deny_beats_allow() -> None:
    settings = UpstreamSettings(name="a", command=("x",), allow=("r*",), deny=("rm",))
    assert [settings.offers(tool) for tool in ("read", "rm", "write")] == [True, False, False]


def test_a_missing_extra_is_one_clear_line() -> None:
    program = (
        "import sys; sys.modules['mcp'] = None\n"
        "from ostler.bridge.upstreams.settings import UpstreamSettings\n"
        "from ostler.bridge.upstreams.shared import Upstreams\n"
        "Upstreams([])\n"
        "try: Upstreams([UpstreamSettings(name='files', command=('x',))])\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (
        done.stdout
        == "ExtraMissing [tools.mcp.files] needs a library that is not installed: pip install 'mcp>=2.3,<3'\n"
    )
