"""The first line of a connection: `OSTLER/1 <relay pid> <token>`.

Plain words instead of JSON, so that the relay needs no encoder and a malformed token in its environment breaks only its
own hello. The pid is for readers of a trace and is never trusted (the kernel's peer credentials are). Any other line,
an older or newer version included, is refused like an unknown token.
"""

from dataclasses import dataclass, field

from ostler.bridge.bindings import RejectReason
from ostler.bridge.tokens import well_formed

MARK = b"OSTLER/"
VERSION = 1
OVER = b"OSTLER/1 over\n"
"""The last line to a relay whose session has ended."""
LIMIT = 4096
REFUSED_LIMIT = 65536  # a client without a binding may send this much in one frame, and gets a refusal for it


@dataclass(frozen=True, slots=True)
class Hello:
    """A well-formed hello; whether its token is valid is not known yet."""

    token: str = field(repr=False)
    pid: int


def parse(line: bytes) -> Hello | RejectReason:
    words = line.split(b" ")
    if len(words) != 3 or not words[0].startswith(MARK):
        return RejectReason.MALFORMED
    if words[0] != b"%b%d" % (MARK, VERSION):
        return RejectReason.VERSION
    try:
        token, pid = words[2].decode("ascii"), int(words[1])
    except ValueError:
        return RejectReason.MALFORMED
    return Hello(token, pid) if well_formed(token) else RejectReason.MALFORMED
