"""Declarations: the rules that hold for each, and the clockwork of loads."""

import importlib
from dataclasses import replace
from pathlib import Path

import pytest

from ostler.pool import providers
from ostler.pool.order import SessionMemo
from ostler.pool.provider import (
    NEVER,
    TRUSTED,
    Approval,
    CloseVerb,
    CodecName,
    LoadTrust,
    Provider,
    Sharing,
    ToolChannel,
    by_name,
)
from ostler.pool.providers import load

PROVIDERS = load()
MINUTE = 1_800_000_000.0 // 60 * 60


def memo(*, opened: float, last: float) -> SessionMemo:
    return SessionMemo("s", "/", opened, last)


def test_every_provider_is_found() -> None:
    files = {path.stem for path in Path(providers.__file__).parent.glob("*.py")} - {"__init__"}
    modules = {name: importlib.import_module(f"{providers.__name__}.{name}") for name in files}
    assert {vars(module)["PROVIDER"].name for module in modules.values()} <= set(PROVIDERS)


def test_two_providers_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="demo"):
        by_name([PROVIDERS["demo"], PROVIDERS["demo"]])
    with pytest.raises(ValueError, match="'claude' for short"):
        by_name([PROVIDERS["claude-acp"], replace(PROVIDERS["demo"], short="claude")])


def test_w02_a_session_that_ends_with_its_process_shares_it_with_none() -> None:
    with pytest.raises(ValueError, match="would end all that share"):
        replace(PROVIDERS["demo"], close=CloseVerb.KILL)
    with pytest.raises(ValueError, match="would end the process that is to replay it"):
        replace(PROVIDERS["demo"], close=CloseVerb.KILL, sharing=Sharing.NONE, seats_per_process=1)


@pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS.keys())
def test_a_declaration_does_not_contradict_itself(provider: Provider) -> None:
    assert (provider.seats_per_process == 1) == (provider.sharing is Sharing.NONE)
    native = provider.codec is CodecName.CODEX_APP_SERVER
    assert provider.tool_channel is (ToolChannel.DYNAMIC_TOOLS if native else ToolChannel.RELAY)
    assert {provider.tool_channel, ToolChannel.RELAY} <= provider.tool_channels
    # There is no peer to check on HTTP: a token that every user of the machine can read would be enough.
    assert not (provider.tokens_in_argv and ToolChannel.HTTP in provider.tool_channels)
    assert provider.parallel_opens >= 1
    assert Approval.AUTO in provider.approvals
    assert not set(provider.credentials) & set(provider.pass_env)
    # What cannot end its sessions must be replaced some day.
    assert provider.close is not CloseVerb.NONE or provider.recycle_after is not None


@pytest.mark.parametrize("name", ["hermes-acp", "acp"])
def test_w02_what_leaks_between_sessions_is_not_shared(name: str) -> None:
    assert not PROVIDERS[name].shared


def test_w02_opencode_is_shared_between_directories_only() -> None:
    assert PROVIDERS["opencode-acp"].sharing is Sharing.PER_CWD


def test_m01_gemini_opens_one_at_a_time() -> None:
    assert PROVIDERS["gemini-acp"].parallel_opens == 1


@pytest.mark.parametrize(("opened", "ready"), [(0.0, 60.0), (59.9, 60.0), (60.0, 120.0), (30.0, 60.0)])
def test_m02_gemini_is_never_loaded_within_the_minute_of_its_open(opened: float, ready: float) -> None:
    trust = PROVIDERS["gemini-acp"].load
    assert trust.ready_at(memo(opened=MINUTE + opened, last=MINUTE + opened)) == MINUTE + ready


def test_a_record_needs_calm_after_the_last_turn() -> None:
    assert LoadTrust(settle=2).ready_at(memo(opened=0, last=50)) == 52
    assert TRUSTED.ready_at(memo(opened=0, last=50)) == 50


def test_w41e_what_cannot_load_never_may() -> None:
    assert NEVER.ready_at(memo(opened=0, last=0)) is None


def test_the_advice_names_what_to_set() -> None:
    assert "GEMINI_API_KEY" in PROVIDERS["gemini-acp"].advice()
    assert "log in" in PROVIDERS["acp"].advice()


WARNING = (
    "Model metadata for `fake-model` not found. Defaulting to fallback metadata; this can degrade performance and cause"
    " issues."
)


@pytest.mark.parametrize(
    ("piece", "stripped"),
    [(WARNING, True), (WARNING + "\n", True), (WARNING + "\nThe answer is 5.", False), ("The answer is 5.", False)],
)
def test_the_agents_own_warning_is_no_part_of_the_answer(piece: str, stripped: bool) -> None:
    pattern = PROVIDERS["codex-acp"].strips
    assert pattern is not None
    assert (pattern.fullmatch(piece) is not None) == stripped


@pytest.mark.parametrize(
    ("piece", "noise"),
    [("<session_context>\nx", True), ("[Function Response: mcp_gw_echo]", True), ("hello <session_context>", False)],
)
def test_what_gemini_adds_to_a_replay_is_no_message_of_the_user(piece: str, noise: bool) -> None:
    pattern = PROVIDERS["gemini-acp"].replays_noise
    assert pattern is not None
    assert (pattern.match(piece) is not None) == noise
