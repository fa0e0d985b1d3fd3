"""Where an agent's login is, and what is said where there is none."""

import dataclasses
from pathlib import Path

import pytest

from ostler.pool.keys import TransportKey
from ostler.pool.launch.builder import Launch, launch
from ostler.pool.launch.logins import logins, missing_login
from ostler.pool.launch.settings import ProviderSettings
from ostler.pool.provider import Provider
from ostler.pool.providers import load
from ostler.pool.providers.codex_app_server import PROVIDER as CODEX
from ostler.pool.providers.hermes import PROVIDER as HERMES
from ostler.pool.providers.opencode import PROVIDER as OPENCODE

MOVED = [one for one in load().values() if one.moved_by]


@pytest.mark.parametrize(
    ("provider", "variable", "file"),
    [(CODEX, "CODEX_HOME", "auth.json"), (HERMES, "HERMES_HOME", ".env")],
)
def test_a_login_in_the_folder_that_a_variable_names_is_seen(
    tmp_path: Path, provider: Provider, variable: str, file: str
) -> None:
    env = {variable: str(tmp_path / "elsewhere")}
    lacks = missing_login(provider, env, str(tmp_path / "home"))
    assert f"{variable} holds no login ({', '.join(login.name for login in logins(provider, env, '/'))})" in lacks
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / file).touch()
    assert missing_login(provider, env, str(tmp_path / "home")) == ""
    assert "HOME holds no login" in missing_login(provider, {}, str(tmp_path / "home"))


def test_a_place_that_cannot_be_looked_at_holds_no_login(tmp_path: Path) -> None:
    """A folder of somebody else's is such a place, but not for root, who may run this: a name that is too long is."""
    unreadable = str(tmp_path / ("n" * 300))
    assert "CODEX_HOME holds no login" in missing_login(CODEX, {"CODEX_HOME": unreadable}, str(tmp_path))


def test_a_login_in_home_is_none_where_the_agent_looks_elsewhere(tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "auth.json").touch()
    assert missing_login(CODEX, {}, str(tmp_path)) == ""
    assert "CODEX_HOME holds no login" in missing_login(CODEX, {"CODEX_HOME": str(tmp_path / "new")}, str(tmp_path))


def test_each_file_is_where_its_own_variable_says(tmp_path: Path) -> None:
    env = {"XDG_DATA_HOME": str(tmp_path / "data")}
    found = [login.path for login in logins(OPENCODE, env, "/home/ann")]
    assert found == [tmp_path / "data/opencode/auth.json", Path("/home/ann/.config/opencode/opencode.json")]
    assert "XDG_DATA_HOME and HOME hold no login" in missing_login(OPENCODE, env, str(tmp_path))


@pytest.mark.parametrize("provider", MOVED, ids=lambda one: one.name)
def test_what_moves_a_login_reaches_the_agent_and_every_folder_holds_one(provider: Provider, tmp_path: Path) -> None:
    environ = {"PATH": "/usr/bin:/bin", "HOME": "/", **dict.fromkeys(provider.moved_by, str(tmp_path))}
    env = started(provider, environ).command.env
    assert {env[name] for name in provider.moved_by} == {str(tmp_path)}
    assert {login.folder for login in logins(provider, env, "/")} == set(provider.moved_by)


def test_w35_a_new_login_there_makes_a_new_generation(tmp_path: Path) -> None:
    environ = {"PATH": "/usr/bin:/bin", "HOME": "/", "CODEX_HOME": str(tmp_path)}
    seen = [started(CODEX, environ).fingerprint]
    for content in ("first", "second"):
        (tmp_path / "auth.json").write_text(content)
        seen.append(started(CODEX, environ).fingerprint)
    assert len(set(seen)) == 3


def started(provider: Provider, environ: dict[str, str]) -> Launch:
    """As it would be, whether it is installed or not."""
    found = dataclasses.replace(provider, find=lambda _finder: ("/bin/true",))
    return launch(found, ProviderSettings(), TransportKey(provider.name, "default", "/"), environ)
