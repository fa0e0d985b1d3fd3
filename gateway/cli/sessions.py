"""`ostler sessions`: list, show, search, export, import, prune and erase stored sessions.

Works while a gateway is running. Verbs that only read never create a database. Exit codes: 0 done, 1 failed, 2 wrong
usage.
"""

import argparse
import asyncio
import math
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from time import time

from ostler.gateway.chat.session_keys import checked_key
from ostler.gateway.config.data_folder import DATABASE, MIRRORS, data_folder
from ostler.gateway.interrupts import raised
from ostler.gateway.memory.embedded import FILE as MEMORY
from ostler.gateway.memory.notebook import Notebook
from ostler.gateway.model.errors import GatewayError, NoSuchSession
from ostler.gateway.model.records import MessageRecord, SessionQuery, SessionRecord, checked_session_id
from ostler.gateway.model.store import ANY, Store
from ostler.gateway.stores.exchange import Brought, bring_in, bundles, lines_out, session_facts
from ostler.gateway.stores.mirror import Mirror
from ostler.gateway.stores.sqlite import SqliteStore
from ostler.wire.json import JsonObject, encode_line

SUMMARY = "list, show, search, export, import, prune and erase stored sessions"
DAY = 86_400.0
PAGE = 500

SessionsVerb = Callable[[Store, argparse.Namespace], Awaitable[int]]


def run(argv: list[str]) -> int:
    """Run the verb of the command line; return the exit code."""
    try:
        options = parser().parse_args(argv)
    except SystemExit as over:
        return int(over.code or 0)
    verb: SessionsVerb = options.verb
    with raised():  # so that a signal still closes the store
        return asyncio.run(with_store(verb, options))


def parser() -> argparse.ArgumentParser:
    """The arguments of the command and its verbs."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--data-dir", metavar="FOLDER", help="default: OSTLER_DATA_DIR, else the XDG state folder")
    common.add_argument("--json", action="store_true", help="one JSON object per line")
    top = argparse.ArgumentParser(prog="ostler sessions", description=SUMMARY)
    verbs = top.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, does: SessionsVerb, text: str) -> argparse.ArgumentParser:
        arguments = verbs.add_parser(name, parents=[common], help=text, description=text)
        arguments.set_defaults(verb=does)
        return arguments

    listing = verb("list", list_sessions, "list sessions, the last active first")
    _add_filters(listing)
    listing.add_argument("--titled", action="store_true", default=None, help="only those with a title")
    showing = verb("show", show, "print a session's transcript")
    showing.add_argument("session", help="id, unique beginning of an id, or title")
    showing.add_argument("--all", action="store_true", help="undone and summarised messages too")
    searching = verb("search", search, "find messages, the newest first")
    searching.add_argument("words", nargs="+")
    _add_filters(searching)
    exporting = verb("export", export, "write sessions as lines of JSON")
    exporting.add_argument("session", nargs="*", help="default: all")
    exporting.add_argument("--output", metavar="FILE", help="default: standard output")
    importing = verb("import", import_, "bring in exported sessions or mirror files; what is there stays")
    importing.add_argument("file", nargs="+", help="'-' is standard input")
    pruning = verb("prune", prune, "delete ended sessions that nothing leads to")
    pruning.add_argument("--days", type=days, required=True, help="not active for so many days")
    erasing = verb("erase", erase, "delete sessions with all that is kept of them, and overwrite their text")
    erasing.add_argument("session", nargs="*", help="id, unique beginning of an id, or title")
    erasing.add_argument("--key", help="every session of this key of a chat face, with --owner where keys are used")
    erasing.add_argument(
        "--owner", help="everything of the owner of this name; '' is the user of a gateway without keys"
    )
    erasing.add_argument("--yes", action="store_true", help="do it; else only say what would go")
    return top


def days(text: str) -> float:
    """Parse a non-negative number of days, for argparse."""
    count = float(text)
    if not 0 <= count < math.inf:
        raise ValueError(text)
    return count


def _add_filters(arguments: argparse.ArgumentParser) -> None:
    arguments.add_argument("--platform")
    arguments.add_argument("--owner")
    arguments.add_argument("--limit", type=int, default=50)


async def with_store(verb: SessionsVerb, options: argparse.Namespace) -> int:
    """Run a verb with the open store."""
    path = data_folder(options.data_dir, os.environ) / DATABASE
    if verb is not import_ and not path.exists():
        print(f"ostler sessions: nothing is stored in {path.parent}", file=sys.stderr)
        return 0 if verb is list_sessions else 1
    store = await SqliteStore.open(path)
    try:
        return await verb(store, options)
    finally:
        await store.aclose()


async def list_sessions(store: Store, options: argparse.Namespace) -> int:
    query = SessionQuery(platform=options.platform, owner=options.owner, titled=options.titled)
    for session in await store.list_sessions(query, limit=options.limit):
        say(session_facts(session), session_line(session), options)
    return 0


async def show(store: Store, options: argparse.Namespace) -> int:
    session = await find(store, options.session)
    say(session_facts(session), session_line(session), options)
    for message in await (store.audit(session.id) if options.all else store.history(session.id)):
        say(message_facts(message), f"{state_of(message)}{message.role}: {message.text}", options)
    return 0


async def search(store: Store, options: argparse.Namespace) -> int:
    query = SessionQuery(platform=options.platform, owner=options.owner)
    for hit in await store.search(" ".join(options.words), query, limit=options.limit):
        facts: JsonObject = {
            "session_id": hit.session_id,
            "title": hit.title,
            "message_id": hit.message_id,
            "role": hit.role,
            "snippet": hit.snippet,
            "created_at": hit.created_at,
        }
        say(facts, f"{hit.session_id}  {moment(hit.created_at)}  {hit.role}: {' '.join(hit.snippet.split())}", options)
    return 0


async def export(store: Store, options: argparse.Namespace) -> int:
    chosen = [await find(store, name) for name in options.session] or await every(store)
    lines = [line async for line in lines_out(store, chosen)]
    if options.output is None:
        sys.stdout.buffer.writelines(lines)
        sys.stdout.flush()
        return 0
    with os.fdopen(os.open(options.output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        out.writelines(lines)
    return 0


async def import_(store: Store, options: argparse.Namespace) -> int:
    brought = Brought()
    for name in options.file:
        raw = sys.stdin.buffer.read() if name == "-" else await asyncio.to_thread(Path(name).read_bytes)
        for bundle in bundles(raw.split(b"\n"), mirrored_session(name), brought):
            await bring_in(store, bundle, brought)
    if brought.unreadable and not brought.sessions:
        print(
            f"ostler sessions: nothing was stored: none of {brought.unreadable} lines is a session or its message",
            file=sys.stderr,
        )
        return 1
    facts: JsonObject = {
        "sessions": brought.sessions,
        "created": brought.created,
        "messages": brought.messages,
        "unreadable": brought.unreadable,
        "titles_taken": brought.titles_taken,
    }
    text = (
        f"{brought.sessions} sessions read; {brought.created} sessions and {brought.messages} messages of them are new"
    )
    skipped = f"; {brought.unreadable} lines could not be read" if brought.unreadable else ""
    untitled = f"; without their title, which is taken: {', '.join(brought.titles_taken)}" * bool(brought.titles_taken)
    say(facts, text + skipped + untitled, options)
    return 0


async def prune(store: Store, options: argparse.Namespace) -> int:
    folder = data_folder(options.data_dir, os.environ)
    mirror = Mirror(folder / MIRRORS)
    gone: list[str] = []
    while some := await store.prune(before=time() - options.days * DAY):
        for session_id in some:
            await asyncio.to_thread(mirror.remove, session_id)
        gone += some
    await asyncio.to_thread(forget_notes, folder / MEMORY, gone, facts=False)
    say({"pruned": gone}, f"{len(gone)} sessions were deleted", options)
    return 0


async def erase(store: Store, options: argparse.Namespace) -> int:
    """Erase sessions from the store, the mirrors and the embedded memory; without `--yes`, only print what would be
    erased."""
    if not options.session and options.key is None and options.owner is None:
        print("ostler sessions: name what is to be erased: sessions, --key or --owner", file=sys.stderr)
        return 2
    chosen = [session.id for session in await chosen_to_erase(store, options)]
    doomed = await store.with_copies(chosen)
    if not options.yes:
        say({"would_erase": doomed}, f"{len(doomed)} sessions would be erased; add --yes to do it", options)
        return 0
    gone = await store.erase(chosen)
    folder = data_folder(options.data_dir, os.environ)
    mirror = Mirror(folder / MIRRORS)
    for session_id in gone:
        await asyncio.to_thread(mirror.remove, session_id)
    owner = options.owner if options.key is None and not options.session else None
    if owner is not None:
        await store.erase_owner(owner)
    notes = await asyncio.to_thread(forget_notes, folder / MEMORY, gone, owner)
    text = f"{len(gone)} sessions and {notes} notes of the memory were erased"
    say({"erased": gone, "notes": notes}, text, options)
    return 0


async def chosen_to_erase(store: Store, options: argparse.Namespace) -> list[SessionRecord]:
    """The sessions that the arguments name."""
    found = [await find(store, name) for name in options.session]
    if options.key is not None:
        key = checked_key(options.key, options.owner or "").stored
        found += await every(store, SessionQuery(key=key))
    elif options.owner is not None and not options.session:
        found += await every(store, SessionQuery(owner=options.owner))
    return found


def forget_notes(path: Path, session_ids: Sequence[str], owner: str | None = None, *, facts: bool = True) -> int:
    """Erase notes of the embedded memory, or without `facts` only what users said in passing. Other
    memories learn of an erasure only from a running gateway."""
    if not path.exists():
        return 0
    notebook = Notebook(path, time)
    try:
        return notebook.erase(session_ids, facts=facts, owner=owner)
    finally:
        notebook.close()


async def find(store: Store, name: str) -> SessionRecord:
    """Find a session by id, by a unique prefix of an id, or by title. Raises `NoSuchSession`."""
    found = await store.get_session(name)
    if found is not None:
        return found
    similar = await store.sessions_by_prefix(name, limit=2)
    if len(similar) == 1:
        return similar[0]
    titled = await store.find_title(name)
    if titled is None:
        raise NoSuchSession(name)
    return titled


async def every(store: Store, query: SessionQuery = ANY) -> list[SessionRecord]:
    """All sessions that match, the oldest first."""
    found: list[SessionRecord] = []
    while page := await store.list_sessions(query, limit=PAGE, offset=len(found)):
        found += page
    return found[::-1]


def mirrored_session(name: str) -> str | None:
    """The session id that the file is named after; None if the name is no session id."""
    if name == "-":
        return None
    try:
        return checked_session_id(Path(name).name.removesuffix(".jsonl"))
    except GatewayError:
        return None


def say(facts: JsonObject, text: str, options: argparse.Namespace) -> None:
    print(encode_line(facts).decode().rstrip("\n") if options.json else text)


def session_line(session: SessionRecord) -> str:
    ended = f"  ended: {session.end_reason}" if session.end_reason else ""
    place = session.platform or "api"
    title = f"  {session.title!r}" if session.title else ""
    count = f"{session.message_count:>5} messages"
    return f"{session.id}  {moment(session.last_active_at)}  {place:<10} {count}{title}{ended}"


def message_facts(message: MessageRecord) -> JsonObject:
    return {
        "id": message.id,
        "role": message.role,
        "items": list(message.items),
        "text": message.text,
        "response_id": message.response_id,
        "created_at": message.created_at,
        "active": message.active,
        "compacted": message.compacted,
    }


def state_of(message: MessageRecord) -> str:
    return "" if message.active else "(summarised) " if message.compacted else "(undone) "


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")
