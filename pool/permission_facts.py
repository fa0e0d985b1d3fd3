"""What an agent asks permission for, read from its request in any dialect. Pure, except for `inside`.

Rules:
- A codec puts a request into the shape of ACP's `toolCall`: `kind`, `locations`, `content`, `rawInput`. Nothing else is
  read here.
- A request counts as an edit inside a directory only if it says so itself and every file that it names lies there, with
  links followed. A request that names no file does not count.
- Files that decide what agents or tools may do later are never inside: an agent that writes them gains more than an
  edit.
"""

import os
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Final

from ostler.pool.events import PermissionAsked
from ostler.wire.json import JsonObject

GUARDED: Final = frozenset(
    {".git", ".claude", ".codex", ".gemini", ".qwen", ".opencode", ".hermes", ".vscode", ".idea", "opencode.json"}
)
"""Names of folders and files in a project that contain hooks, permissions or commands."""
EDITS: Final = frozenset({"edit", "delete", "move"})
PATHS_AT_MOST: Final = 200
SHOWN: Final = 16_384
"""Characters of each text and of each diff that a person is shown."""


def details(asked: PermissionAsked) -> JsonObject:
    """What a person needs to decide: the agent's own arguments, with kind, command, paths and diff added where they
    lack them.
    """
    call, given = asked.tool_call, asked.tool_call.get("rawInput")
    facts: JsonObject = {name: short(value) for name, value in given.items()} if isinstance(given, dict) else {}
    kind = call.get("kind")
    if isinstance(kind, str) and kind not in ("", "other"):
        facts.setdefault("kind", kind)
    if kind == "execute":
        facts.setdefault("command", short(asked.title))
    if paths := paths_of(asked):
        facts.setdefault("paths", paths)
    if diffs := list(diffs_of(asked)):
        facts.setdefault("diff", short("\n".join(diffs)))
    return facts


def paths_of(asked: PermissionAsked) -> list[str]:
    """The files that the request names, each once."""
    blocks = [*objects(asked.tool_call.get("locations")), *edits_of(asked)]
    found = [block["path"] for block in blocks if isinstance(block.get("path"), str)]
    return list(dict.fromkeys(found))[:PATHS_AT_MOST]


def edits_of(asked: PermissionAsked) -> list[JsonObject]:
    """The changes that the request shows."""
    return [block for block in objects(asked.tool_call.get("content")) if block.get("type") == "diff"]


def diffs_of(asked: PermissionAsked) -> Iterator[str]:
    """Each change as text for a person."""
    for block in edits_of(asked):
        path, old, new = (text_of(block.get(name)) for name in ("path", "oldText", "newText"))
        if isinstance(block.get("diff"), str):
            yield f"{path}\n{block['diff']}"
        elif len(old) + len(new) <= SHOWN:
            yield "\n".join(unified_diff(old.splitlines(), new.splitlines(), path, path, lineterm=""))
        else:
            # Comparing long texts line by line takes seconds.
            yield f"{path}: {len(old)} characters become {len(new)}"


def inside(paths: Sequence[str], cwd: str) -> bool:
    """Whether these files lie in the directory. Reads the disk: do not call it on an event loop."""
    home = Path(os.path.realpath(cwd))
    return bool(paths) and all(lies_in(home, path) for path in paths)


def lies_in(home: Path, path: str) -> bool:
    """Whether one path lies in the directory, with every link followed."""
    try:
        found = Path(os.path.realpath(home / path))
    except (OSError, ValueError):
        return False
    return found.is_relative_to(home) and found != home and GUARDED.isdisjoint(found.relative_to(home).parts)


def is_edit(asked: PermissionAsked) -> bool:
    """Whether the request itself says that it changes files, and names them."""
    paths = paths_of(asked)
    return asked.tool_call.get("kind") in EDITS and 0 < len(paths) < PATHS_AT_MOST


def short(value: object) -> object:
    """The value; a text is cut to a length that a person can read."""
    if isinstance(value, str) and len(value) > SHOWN:
        return f"{value[:SHOWN]}\n[{len(value) - SHOWN} more characters]"
    return value


def objects(found: object) -> list[JsonObject]:
    """The entries of a list that are objects."""
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def text_of(value: object) -> str:
    """The value if it is a text, otherwise the empty text."""
    return value if isinstance(value, str) else ""
