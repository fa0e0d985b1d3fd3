"""What is started, and what makes it another thing to start."""

import dataclasses
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ostler.pool.errors import AgentStartFailed, Phase, UnknownProvider
from ostler.pool.keys import TransportKey
from ostler.pool.launch.builder import Launch, fingerprint, launch, spare_of
from ostler.pool.launch.settings import BadSetting, Deadlines, ProviderSettings
from ostler.pool.provider import Approval, CodecName, Provider, Recipe, ToolChannel
from ostler.pool.providers import load
from ostler.pool.providers.acp import PROVIDER as ACP
from ostler.pool.providers.codex_app_server import PROVIDER as CODEX
from ostler.pool.providers.gemini import PROVIDER as GEMINI

ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/", "GEMINI_API_KEY": "key-of-gemini", "MODEL_OF_THE_GATEWAY": "x"}
PYTHON = ProviderSettings(command=(sys.executable,))
PROVIDER = dataclasses.replace(
    ACP, arguments=lambda wanted: Recipe((wanted.model or "none",), {}), credential_files=("login",)
)
KEY = TransportKey("acp", "model", "/work")
LIMIT = {resource.RLIMIT_NOFILE: (100, 200)}


def build(
    provider: Provider = PROVIDER, settings: ProviderSettings = PYTHON, key: TransportKey = KEY, **environ: str
) -> Launch:
    return launch(provider, settings, key, {**ENVIRON, **environ})


def with_settings(**changes: Any) -> Callable[[Path], Launch]:
    return lambda _home: build(settings=dataclasses.replace(PYTHON, **changes))


def with_provider(**changes: Any) -> Callable[[Path], Launch]:
    return lambda _home: build(dataclasses.replace(PROVIDER, **changes))


# Each thing that reaches a process; deadlines and the key's cwd do not.
SHAPES: dict[str, Callable[[Path], Launch]] = {
    "command": with_settings(command=(sys.executable, "-I")),
    "args": with_settings(args=("--more",)),
    "env": with_settings(env={"A": "1"}),
    "prefix": with_settings(prefix=("env",)),
    "rlimits": with_settings(rlimits=LIMIT),
    "approval": with_settings(approval=Approval.ASK),
    "commands": with_settings(commands=True),
    "cache": with_settings(cache="/var/cache"),
    "home": lambda home: build(settings=dataclasses.replace(PYTHON, home=str(home))),
    "pass_env": with_settings(pass_env=("MODEL_OF_THE_GATEWAY",)),
    "fixed_env": with_provider(fixed_env={"A": "1"}),
    "codec": with_provider(codec=CodecName.CODEX_APP_SERVER),
    "tool_channel": with_provider(tool_channel=ToolChannel.DYNAMIC_TOOLS),
    "model": lambda _home: build(key=TransportKey("acp", "other", "/work")),
    "path": lambda _home: build(PATH="/usr/bin"),
}
PER_CALL = {"deadlines", "open_requests"}


@pytest.mark.parametrize("shape", SHAPES)
def test_w09_each_spawn_input_changes_the_fingerprint(shape: str, tmp_path: Path) -> None:
    assert SHAPES[shape](tmp_path).fingerprint != build().fingerprint


@pytest.mark.parametrize("name", [provider.name for provider in load().values()])
def test_w09_another_model_is_another_process_also_where_it_is_said_with_each_session(name: str) -> None:
    provider = load()[name]
    settings = dataclasses.replace(PYTHON, approval=min(provider.approvals))
    made = {build(provider, settings, TransportKey(name, model, "/work")).fingerprint for model in ("one", "other")}
    assert len(made) == 2


def test_a_spare_names_no_directory() -> None:
    assert "/work" not in spare_of(build()).command.label


def test_w09_no_setting_is_without_a_class() -> None:
    assert {field.name for field in dataclasses.fields(ProviderSettings)} == (SHAPES.keys() & SETTINGS) | PER_CALL


SETTINGS = {field.name for field in dataclasses.fields(ProviderSettings)}


def test_w14b_equal_inputs_give_equal_launches_whatever_is_per_call() -> None:
    patient = dataclasses.replace(PYTHON, deadlines=Deadlines(start=99), open_requests=3)
    elsewhere = TransportKey("acp", "model", "/elsewhere")
    assert build().fingerprint == build(settings=patient, key=elsewhere).fingerprint
    assert build().fingerprint == build(ANYTHING_NEW="in the gateway's environment").fingerprint


def test_w29b_the_gateways_environment_is_not_the_childs() -> None:
    assert "MODEL_OF_THE_GATEWAY" not in build().command.env
    assert "GEMINI_API_KEY" not in build().command.env


def test_w35_a_new_login_makes_a_new_generation(tmp_path: Path) -> None:
    settings = dataclasses.replace(PYTHON, home=str(tmp_path))
    seen = [build(settings=settings).fingerprint]
    for content in ("first", "second"):
        (tmp_path / "login").write_text(content)
        seen.append(build(settings=settings).fingerprint)
    assert len(set(seen)) == 3


def test_w11_secrets_are_named_for_redaction_and_shown_nowhere() -> None:
    provider = dataclasses.replace(PROVIDER, credentials=("GEMINI_API_KEY",))
    made = build(provider)
    assert made.command.secrets == ("key-of-gemini",)
    assert "key-of-gemini" not in repr(made)
    assert made.fingerprint != build(provider, GEMINI_API_KEY="another-key").fingerprint


def test_the_fingerprint_of_a_secret_is_not_the_secret() -> None:
    command = build(dataclasses.replace(PROVIDER, credentials=("GEMINI_API_KEY",))).command
    mark = fingerprint(
        command, model=None, approval=Approval.AUTO, codec=CodecName.ACP, channel=ToolChannel.RELAY, credentials={}
    )
    assert len(mark) == 64
    assert int(mark, 16) >= 0


def test_a_missing_cli_says_which_and_how_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(AgentStartFailed, match=r"gemini-acp.*no program 'gemini'.*npm install") as caught:
        launch(GEMINI, ProviderSettings(), TransportKey("gemini-acp", "m", "/"), {**ENVIRON, "PATH": str(tmp_path)})
    assert caught.value.phase is Phase.SPAWN
    assert caught.value.provider == "gemini-acp"


@pytest.mark.parametrize(
    ("provider", "settings", "culprit"),
    [
        (ACP, ProviderSettings(), "providers.acp.command"),
        (GEMINI, ProviderSettings(tool_channel=ToolChannel.DYNAMIC_TOOLS), "tool_channel"),
        (GEMINI, ProviderSettings(tool_channel=ToolChannel.ACP), "tool_channel"),
        (CODEX, ProviderSettings(tool_channel=ToolChannel.HTTP), "tool_channel"),
        (GEMINI, ProviderSettings(deadlines=Deadlines(start=0.1)), "deadlines.start"),
        (dataclasses.replace(ACP, approvals=frozenset()), PYTHON, "approval"),
    ],
)
def test_contradictions_are_named(provider: Provider, settings: ProviderSettings, culprit: str) -> None:
    with pytest.raises(BadSetting) as caught:
        launch(provider, settings, TransportKey(provider.name, "m", "/"), ENVIRON)
    assert caught.value.field == culprit


@pytest.mark.parametrize(
    "settings",
    [
        {"command": ()},
        {"command": ("",)},
        {"env": {"A=B": "x"}},
        {"pass_env": ("",)},
        {"home": "relative"},
        {"cache": "relative"},
        {"rlimits": {resource.RLIMIT_NOFILE: (200, 100)}},
    ],
)
def test_bad_settings_are_refused_where_they_are_made(settings: dict[str, Any]) -> None:
    with pytest.raises(BadSetting):
        ProviderSettings(**settings)


@pytest.mark.parametrize("seconds", [0, -1, 86_401, float("nan")])
def test_a_deadline_has_an_end(seconds: float) -> None:
    with pytest.raises(BadSetting, match=r"deadlines\.probe"):
        Deadlines(probe=seconds)


def test_a_key_of_another_provider_is_refused() -> None:
    with pytest.raises(UnknownProvider):
        launch(CODEX, PYTHON, KEY, ENVIRON)
