"""Mutations: of the document (structure kept, meaning broken) and of its bytes (structure broken).

Rules:
- All randomness comes from the `Random` handed in.
- Structure first: random bytes die in the parser, so two frames of three are still JSON and reach what lies behind it.
- The vocabulary of the corpus (kinds, methods, keys, ids) confuses best: values wander between frames.
"""

import copy
import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

HALF = "\ud83d"
# Stands for a value nested deeper than Python can walk: it is put in after writing, for the same reason.
DEEP = "<deep>"
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 1.0, 1.5, -0.0, 2**31, 2**53 + 1, 2**63, 2**64, 10**30, 1e308),
    *("", "1", "id", HALF, "\ude00" + HALF, "\x00", "\u2028", "\ufeff", "x" * 300, "../..", "\n", "é😀"),
    *(DEEP, [], {}, [[]], [{}], [None], {"": None}, {"type": "text"}, {"type": "text", "text": 5}, [1] * 50),
)
TOKENS: tuple[bytes, ...] = (
    *(b"\xff", b"\xc3", b"\xed\xa0\xbd", b"\xef\xbb\xbf", b"\x00", b"\n", b"\r\n", b"\r", b"\\ud83d", b"\\\\ud83d"),
    *(b"\\ude00", b"\\u", b"\\", b'"', b"{", b"}", b"[", b"]", b",", b":", b"null", b"true", b"NaN", b"1e999", b"-"),
    *(b"9" * 30, b"9" * 400, b"[" * 1500, b'{"a":' * 600, b'"id":1,', b'"method":1,', b'"id":null,', b" " * 200),
)
Path = tuple[Any, ...]


class Mutator:
    """Frames without end, grown from one corpus."""

    def __init__(self, seeds: Sequence[bytes], rng: Random) -> None:
        self._rng = rng
        self._seeds = list(seeds)
        self._documents = [json.loads(seed) for seed in seeds]
        self._words = [value for document in self._documents for _, value in walk(document)]
        self._keys = sorted({part for document in self._documents for path, _ in walk(document) for part in keys(path)})
        self._edits: tuple[Callable[[Any, Path], Any], ...] = (
            self._replace, self._replace, self._borrow, self._borrow, self._drop, self._rename, self._add, self._wrap
        )  # fmt: skip
        self._scars: tuple[Callable[[bytes], bytes], ...] = (
            self._flip, self._insert, self._insert, self._cut, self._repeat, self._splice, self._truncate
        )  # fmt: skip

    def frame(self) -> bytes:
        """The next mutated frame."""
        rng = self._rng
        lot = rng.random()
        if lot < 0.02:
            return rng.choice(self._seeds)
        at = rng.randrange(len(self._seeds))
        text = self._seeds[at] if lot < 0.25 else self._written(self._edited(copy.deepcopy(self._documents[at])))
        if lot < 0.4:
            for _ in range(rng.choice((1, 1, 1, 2, 5))):
                text = rng.choice(self._scars)(text)
        return text

    def _edited(self, document: Any) -> Any:
        for _ in range(self._rng.choice((1, 1, 2, 3))):
            paths = [path for path, _ in walk(document) if path]
            document = self._rng.choice(self._edits)(document, self._rng.choice(paths)) if paths else document
        return document

    def _written(self, document: Any) -> bytes:
        levels = self._rng.choice((150, 250, 990, 1100))
        text = json.dumps(document, ensure_ascii=self._rng.random() < 0.5, separators=(",", ":"))
        return text.encode("utf-8", "surrogatepass").replace(b'"<deep>"', b"[" * levels + b"]" * levels)

    # Edits of the document.

    def _replace(self, document: Any, path: Path) -> Any:
        parent_of(document, path)[path[-1]] = copy.deepcopy(self._rng.choice(VALUES))
        return document

    def _borrow(self, document: Any, path: Path) -> Any:
        parent_of(document, path)[path[-1]] = copy.deepcopy(self._rng.choice(self._words))
        return document

    def _drop(self, document: Any, path: Path) -> Any:
        del parent_of(document, path)[path[-1]]
        return document

    def _rename(self, document: Any, path: Path) -> Any:
        parent = parent_of(document, path)
        if isinstance(parent, dict):
            parent[self._rng.choice(self._keys)] = parent.pop(path[-1])
        return document

    def _add(self, document: Any, path: Path) -> Any:
        parent = parent_of(document, path)
        value = copy.deepcopy(self._rng.choice(self._words))
        if isinstance(parent, dict):
            parent[self._rng.choice(self._keys)] = value
        else:
            parent.append(value)
        return document

    def _wrap(self, document: Any, path: Path) -> Any:
        if self._rng.random() < 0.3:
            return [document] * self._rng.choice((1, 2, 5))
        parent = parent_of(document, path)
        parent[path[-1]] = [parent[path[-1]]]
        return document

    # Edits of the bytes.

    def _spot(self, text: bytes) -> int:
        return self._rng.randrange(len(text) + 1)

    def _flip(self, text: bytes) -> bytes:
        if not text:
            return b"\x00"
        at = self._rng.randrange(len(text))
        return text[:at] + bytes([text[at] ^ (1 << self._rng.randrange(8))]) + text[at + 1 :]

    def _insert(self, text: bytes) -> bytes:
        at = self._spot(text)
        return text[:at] + self._rng.choice(TOKENS) + text[at:]

    def _cut(self, text: bytes) -> bytes:
        at = self._spot(text)
        return text[:at] + text[at + self._rng.randrange(1, 20) :]

    def _repeat(self, text: bytes) -> bytes:
        start, end = sorted((self._spot(text), self._spot(text)))
        return text[:end] + text[start:end] * self._rng.choice((1, 1, 3)) + text[end:]

    def _splice(self, text: bytes) -> bytes:
        other = self._rng.choice(self._seeds)
        return text[: self._spot(text)] + other[self._spot(other) :]

    def _truncate(self, text: bytes) -> bytes:
        return text[: self._spot(text)]


def walk(document: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    """Every value in a document with the way to it."""
    found = [(path, document)]
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document if isinstance(document, list) else ())
    )
    for key, value in inner:
        found += walk(value, (*path, key))
    return found


def keys(path: Path) -> list[str]:
    return [part for part in path if isinstance(part, str)]


def parent_of(document: Any, path: Path) -> Any:
    for part in path[:-1]:
        document = document[part]
    return document
