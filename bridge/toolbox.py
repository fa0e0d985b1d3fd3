"""A tool list as an agent gets it: plain MCP tool objects, checked and encoded once.

Two lists are equal when an agent would read the same bytes. Equal lists are one object (`Toolboxes`), so a thousand
sessions with the same tools hold the same few kilobytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from ostler.bridge.errors import DuplicateTool, ToolMalformed
from ostler.wire.json import JsonObject, Unencodable, encode_line


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Toolbox:
    """One immutable tool list: documents, their encodings and names. Make it with `toolbox`."""

    documents: tuple[JsonObject, ...] = ()
    encoded: tuple[bytes, ...] = ()
    names: frozenset[str] = frozenset()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Toolbox) and (self is other or self.encoded == other.encoded)

    def __hash__(self) -> int:
        return hash(self.encoded)


EMPTY = Toolbox()


def toolbox(documents: Sequence[JsonObject]) -> Toolbox:
    names: set[str] = set()
    encoded: list[bytes] = []
    for document in documents:
        name = document.get("name")
        if not isinstance(name, str) or not name or not isinstance(document.get("inputSchema"), dict):
            raise ToolMalformed(str(name)[:128], "a tool needs a name and an inputSchema object")
        if name in names:
            raise DuplicateTool(name)
        names.add(name)
        try:
            encoded.append(encode_line(document)[:-1])
        except Unencodable as error:
            raise ToolMalformed(name, str(error)) from error
    return Toolbox(tuple(documents), tuple(encoded), frozenset(names))


@dataclass(slots=True)
class Toolboxes:
    """The tool lists in use, each stored once."""

    _known: WeakValueDictionary[tuple[bytes, ...], Toolbox] = field(default_factory=WeakValueDictionary)

    def __len__(self) -> int:
        return len(self._known)

    def of(self, documents: Sequence[JsonObject]) -> Toolbox:
        if not documents:
            return EMPTY
        box = toolbox(documents)
        return self._known.setdefault(box.encoded, box)
