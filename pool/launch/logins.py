"""Finds out before a start whether an agent can log in: without a key, many agents answer the handshake and then stay
silent, or are silent for a minute.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ostler.pool.provider import Provider


@dataclass(frozen=True, slots=True)
class Login:
    """A file that an agent may keep a login in."""

    folder: str
    """The environment variable of the folder: HOME, or one of the agent's own."""
    name: str
    """The path of the file below that folder."""
    path: Path


def logins(provider: Provider, env: Mapping[str, str], home: str) -> list[Login]:
    """The files where the agent looks for a login, with this environment."""
    return [login_at(name, provider, env, home) for name in provider.credential_files]


def login_at(name: str, provider: Provider, env: Mapping[str, str], home: str) -> Login:
    """The login file of this name below HOME, or where the agent's own variable moves it."""
    for variable, folder in provider.moved_by.items():
        if env.get(variable) and name.startswith(f"{folder}/"):
            inner = name.removeprefix(f"{folder}/")
            return Login(variable, inner, Path(env[variable]) / inner)
    return Login("HOME", name, Path(home) / name)


def missing_login(provider: Provider, env: Mapping[str, str], home: str) -> str:
    """A sentence that names the missing keys and files; "" if a key or login exists, or if none is needed."""
    places = logins(provider, env, home)
    if not (provider.credentials or places):
        return ""
    if any(env.get(name) for name in provider.credentials) or any(_is_there(place.path) for place in places):
        return ""
    names, files = ", ".join(provider.credentials), ", ".join(place.name for place in places)
    folders = list(dict.fromkeys(place.folder for place in places)) or ["HOME"]
    hold = "holds" if len(folders) == 1 else "hold"
    return f"no key: none of {names} is set, and {' and '.join(folders)} {hold} no login ({files})"


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # e.g. a folder of another user: the agent cannot read it either
        return False
