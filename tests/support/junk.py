"""The kinds of junk that a peer counts."""

from typing import get_args

from ostler.wire.rpc import JunkKind

JUNK_KINDS = frozenset(kind for part in get_args(JunkKind) for kind in get_args(part))
