"""Whether an agent has anything to log in with, said before it is asked: many answer the handshake without a key and
then say nothing at all, or nothing for a minute."""

from collections.abc import Mapping
from pathlib import Path

from ostler.pool.provider import Provider


def missing_login(provider: Provider, env: Mapping[str, str], home: str) -> str:
    """What is missing where neither a key nor a login is there; "" where one is, or where none is needed."""
    if not (provider.credentials or provider.credential_files):
        return ""
    keyed = any(env.get(name) for name in provider.credentials)
    if keyed or any((Path(home) / name).is_file() for name in provider.credential_files):
        return ""
    names, files = ", ".join(provider.credentials), ", ".join(provider.credential_files)
    return f"no key: none of {names} is set, and HOME holds no login ({files})"
