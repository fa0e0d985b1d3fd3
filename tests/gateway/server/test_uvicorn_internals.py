"""What we use of uvicorn's inside: named in one file, there in the installed release, and bounded in pyproject.toml."""

import ast
import asyncio
import logging
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from packaging.requirements import Requirement
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from ostler.bridge.channels.uvicorn_internals import CYCLE, PROTOCOL, SERVER

ROOT = Path(__file__).resolve().parents[3]
INTERNALS = ROOT / "bridge/channels/uvicorn_internals.py"
CONNECTIONS = [
    INTERNALS,
    ROOT / "bridge/channels/http_door.py",
    ROOT / "gateway/http/protocol.py",
    ROOT / "gateway/http/fast_path.py",
    ROOT / "gateway/server/admin_socket.py",
]
SERVERS = [INTERNALS, *(ROOT / name for name in ("bridge/channels/http.py", "gateway/server/serving.py"))]
DOCUMENTED = {"__init__", "config", "serve"}


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Never called."""


def config() -> uvicorn.Config:
    return uvicorn.Config(application, ws="none", lifespan="off", log_config=None)


async def connection() -> HttpToolsProtocol:
    return HttpToolsProtocol(config(), ServerState(), {}, asyncio.get_running_loop())


async def cycle() -> RequestResponseCycle:
    facts: dict[str, Any] = dict.fromkeys(("scope", "transport", "flow", "default_headers", "on_response"))
    logger = logging.getLogger(__name__)
    return RequestResponseCycle(
        **facts,
        logger=logger,
        access_logger=logger,
        access_log=False,
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=True,
    )


def complaints(thing: object, members: frozenset[str]) -> list[str]:
    """A sentence for each member that is gone."""
    return [
        f"uvicorn {version('uvicorn')} has no {type(thing).__name__}.{name}: see who uses it, mend "
        f"{INTERNALS.relative_to(ROOT)}, or lower the bound in pyproject.toml"
        for name in sorted(members)
        if not hasattr(thing, name)
    ]


async def test_n54_what_we_use_of_uvicorns_inside_is_there() -> None:
    things = ((uvicorn.Server(config()), SERVER), (await connection(), PROTOCOL), (await cycle(), CYCLE))
    assert [said for thing, members in things for said in complaints(thing, members)] == []


@pytest.mark.parametrize("gone", sorted(PROTOCOL))
def test_n54_a_member_that_is_gone_is_named(gone: str) -> None:
    remaining = type("HttpToolsProtocol", (), dict.fromkeys(PROTOCOL - {gone}))
    (said,) = complaints(remaining(), PROTOCOL)
    assert f"has no HttpToolsProtocol.{gone}: " in said


def attributes(path: Path) -> Iterator[tuple[str, str]]:
    """Each `thing.member` of a file, `super().member`, and each method that is defined, as one of `self`."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Attribute(value=ast.Name(id=thing), attr=member):
                yield thing, member
            case ast.Attribute(value=ast.Attribute(attr=thing), attr=member):
                yield thing, member
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=member):
                yield "self", member
            case ast.FunctionDef(name=member):
                yield "self", member


async def test_n54_every_member_that_is_used_is_named_and_no_other() -> None:
    used = [found for path in CONNECTIONS for found in attributes(path)]
    theirs = set(dir(await connection())) - set(dir(asyncio.Protocol)) | {"connection_made", "connection_lost"}
    theirs |= {"data_received"}
    of_connections = {member for thing, member in used if thing in {"self", "oldest", "each"}} & theirs
    of_cycles = {member for thing, member in used if thing in {"cycle", "_cycle", "answered"}} & set(dir(await cycle()))
    assert of_connections - {"config"} == PROTOCOL
    assert of_cycles == CYCLE
    told = [found for path in SERVERS for found in attributes(path) if path == INTERNALS or found[0] == "server"]
    of_servers = {member for thing, member in told if thing in {"self", "server"}}
    assert of_servers & set(dir(uvicorn.Server(config()))) - DOCUMENTED == SERVER


def test_n54_every_server_of_ours_is_the_one_that_names_what_it_uses() -> None:
    bases = [
        (path.name, ast.unparse(base))
        for room in ("bridge", "gateway")
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if "uvicorn" in ast.unparse(base)
    ]
    assert bases == [(INTERNALS.name, "uvicorn.Server")]


def test_n54_only_one_file_looks_inside_uvicorn() -> None:
    looking: dict[str, set[str]] = {}
    for path in (
        path for room in ("wire", "pool", "bridge", "gateway", "metrics") for path in (ROOT / room).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if inside := {name for name in names if name.startswith("uvicorn.")}:
                looking.setdefault(str(path.relative_to(ROOT)), set()).update(inside)
    assert set(looking) == {str(INTERNALS.relative_to(ROOT))}, "import it from ostler.bridge.channels.uvicorn_internals"


def test_n54_a_release_that_was_not_looked_at_is_not_installed() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (wanted,) = (one for one in map(Requirement, declared) if one.name == "uvicorn")
    assert wanted.specifier.contains(version("uvicorn"))
    major, minor, *_ = map(int, version("uvicorn").split("."))
    assert not wanted.specifier.contains(f"{major}.{minor + 1}"), "uvicorn changes its inside in minor releases"
