"""Loopback servers that speak the HTTP APIs of Hindsight and Honcho, as far as our providers use them.

Rules: strict where the real ones are (paths, bearer, required fields, sizes), so that a client that changes is noticed.
They keep what they are told, and can be told to hold or to refuse requests. Standard library only.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

KEY = "memory-key-0123456789"
WHEN = "2026-01-02T03:04:05Z"
ID = re.compile(r"[a-zA-Z0-9_-]{1,512}")
Reply = tuple[int, Any]
Route = tuple[str, "re.Pattern[str]", Callable[..., Reply]]


@dataclass
class Service:
    """The part that both have."""

    url: str = ""
    seen: list[tuple[str, str]] = field(default_factory=list)
    refusing: bool = False
    """Answer 400 from now on: an error that no client tries again."""
    gate: threading.Event = field(default_factory=threading.Event)
    """Writes wait while it is not set."""
    writing: threading.Event = field(default_factory=threading.Event)
    """A write has arrived."""

    def __post_init__(self) -> None:
        self.gate.set()

    def routes(self) -> list[Route]:
        raise NotImplementedError

    def answer(self, method: str, target: str, body: Any, bearer: str) -> Reply:
        parts = urlsplit(target)
        self.seen.append((method, unquote(parts.path)))
        if bearer != f"Bearer {KEY}":
            return 401, {"detail": "no such key"}
        if self.refusing:
            return 400, {"detail": "refused as told"}
        for wanted, path, action in self.routes():
            found = path.fullmatch(parts.path)
            if found and wanted == method:
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                return action(body, query, *map(unquote, found.groups()))
        return 404, {"detail": f"there is no {method} {parts.path}"}

    def hold(self) -> None:
        """A write has come; it waits for the gate."""
        self.writing.set()
        assert self.gate.wait(300)


@dataclass
class HindsightService(Service):
    """Banks of documents. `recall` gives back the documents that share a word with the query."""

    banks: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)

    def routes(self) -> list[Route]:
        bank = "/v1/default/banks/([^/]+)/memories"
        return [("POST", re.compile(bank), self.retain), ("POST", re.compile(f"{bank}/recall"), self.recall)]

    def retain(self, body: Any, query: dict[str, str], bank: str) -> Reply:
        self.hold()
        items = body["items"]
        if not all(isinstance(item.get("content"), str) and item["content"] for item in items):
            return 422, {"detail": "items need content"}
        documents = self.banks.setdefault(bank, {})
        for item in items:
            parts = documents.setdefault(item["document_id"], [])
            if item.get("update_mode") != "append":
                parts.clear()
            parts.append(item)
        return 200, {"success": True, "bank_id": bank, "items_count": len(items), "async": bool(body.get("async"))}

    def recall(self, body: Any, query: dict[str, str], bank: str) -> Reply:
        if bank not in self.banks:
            return 404, {"detail": "there is no such bank"}
        words = set(body["query"].lower().split())
        texts = [item["content"] for parts in self.banks[bank].values() for item in parts]
        found = [text for text in texts if words & set(text.lower().split())]
        return 200, {"results": [{"id": str(place), "text": text} for place, text in enumerate(found)]}

    def document(self, bank: str, ident: str) -> str:
        """All that was appended to it."""
        return "\n\n".join(item["content"] for item in self.banks[bank][ident])


@dataclass
class HonchoService(Service):
    """Workspaces of peers and sessions. A peer's representation is what it has said, in all sessions."""

    peers: dict[str, dict[str, Any]] = field(default_factory=dict)
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)

    def routes(self) -> list[Route]:
        inside = "/v3/workspaces/([^/]+)"
        return [
            ("POST", re.compile("/v3/workspaces"), self.make_workspace),
            ("POST", re.compile(f"{inside}/peers"), self.make_peer),
            ("POST", re.compile(f"{inside}/sessions"), self.make_session),
            ("DELETE", re.compile(f"{inside}/sessions/([^/]+)"), self.delete_session),
            ("POST", re.compile(f"{inside}/sessions/([^/]+)/messages"), self.add),
            ("GET", re.compile(f"{inside}/peers/([^/]+)/context"), self.context),
        ]

    def make_workspace(self, body: Any, query: dict[str, str]) -> Reply:
        return self.made({"id": body["id"]})

    def make_peer(self, body: Any, query: dict[str, str], workspace: str) -> Reply:
        return self.made(self.peers.setdefault(body["id"], {"workspace_id": workspace, **body}))

    def make_session(self, body: Any, query: dict[str, str], workspace: str) -> Reply:
        return self.made(self.sessions.setdefault(body["id"], {"workspace_id": workspace, "is_active": True, **body}))

    def delete_session(self, body: Any, query: dict[str, str], workspace: str, session: str) -> Reply:
        if self.sessions.pop(session, None) is None:
            return 404, {"detail": "there is no such session"}
        self.messages = [each for each in self.messages if each["session_id"] != session]
        return 202, {}

    def made(self, thing: dict[str, Any]) -> Reply:
        if not ID.fullmatch(thing["id"]):
            return 422, {"detail": "an id has letters, digits, _ and - only"}
        return 200, {"created_at": WHEN, "metadata": {}, "configuration": {}, **thing}

    def add(self, body: Any, query: dict[str, str], workspace: str, session: str) -> Reply:
        self.hold()
        if session not in self.sessions or not 1 <= len(body["messages"]) <= 100:
            return 422, {"detail": "no such session, or a wrong number of messages"}
        if any(
            not 1 <= len(each["content"]) <= 25_000 or each["peer_id"] not in self.peers for each in body["messages"]
        ):
            return 422, {"detail": "a message is too long, or of nobody"}
        facts = {"session_id": session, "workspace_id": workspace, "created_at": WHEN, "token_count": 1}
        made = [{"id": str(len(self.messages)), **facts, **each} for each in body["messages"]]
        self.messages += made
        return 200, made

    def context(self, body: Any, query: dict[str, str], workspace: str, peer: str) -> Reply:
        said = [each["content"] for each in self.messages if each["peer_id"] == peer]
        return 200, {"peer_id": peer, "target_id": peer, "representation": "\n".join(said), "peer_card": ["likes tea"]}


@contextmanager
def running(service: Service) -> Iterator[None]:
    """The service on a free port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            self.reply(*service.answer("POST", self.path, json.loads(self.rfile.read(size) or b"{}"), self.bearer()))

        def do_GET(self) -> None:
            self.reply(*service.answer("GET", self.path, None, self.bearer()))

        def do_DELETE(self) -> None:
            self.reply(*service.answer("DELETE", self.path, None, self.bearer()))

        def bearer(self) -> str:
            return self.headers.get("authorization") or ""

        def reply(self, status: int, body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, form: str, *args: Any) -> None:
            """Not to stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    service.url = f"http://127.0.0.1:{server.server_address[1]}/"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield
    finally:
        service.gate.set()
        server.shutdown()
        thread.join()
        server.server_close()
