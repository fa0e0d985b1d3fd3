"""Binding tokens: 128 random bits as 32 lowercase hex digits, compared exactly.

The table never stores or compares a token itself. It is keyed by a BLAKE2 digest under a key drawn at start, so the
dictionary's early exits depend on bits that a client can neither predict nor choose: the time of a lookup tells nothing
about how close a guess was, and a memory dump of the table contains nothing that can be presented on the socket.
"""

import hashlib
import re
import secrets
from collections.abc import Callable

TokenSource = Callable[[], str]

_FORM = re.compile(r"[0-9a-f]{32}\Z")


def secret_token() -> str:
    return secrets.token_hex(16)


def well_formed(token: str) -> bool:
    return _FORM.match(token) is not None


def digest(key: bytes, token: bytes) -> bytes:
    return hashlib.blake2b(token, digest_size=16, key=key).digest()
