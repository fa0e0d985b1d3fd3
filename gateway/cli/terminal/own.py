"""Runs a gateway inside `ostler chat`. Imported only if no other gateway runs: it causes most of the imports.

Rules: it listens on a socket that only this user can open, so it asks for no key. Operators reach it over the admin
socket, like any other gateway. It logs to a file, because the screen belongs to the conversation.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from ostler.gateway.cli.terminal.gateway_locator import COMMAND
from ostler.gateway.cli.terminal.http import HttpClient
from ostler.gateway.config.data_folder import usable
from ostler.gateway.config.load import Loaded
from ostler.gateway.config.settings import AuthSettings
from ostler.gateway.ops.log import LogLines, checked, log_death
from ostler.gateway.server.address import leave_address
from ostler.gateway.server.admin_socket import Familiar, listening
from ostler.gateway.server.app import open_gateway
from ostler.gateway.server.listener import address_of, listen_unix
from ostler.gateway.server.serving import Server
from ostler.pool.tasks import TaskOwner

LOG_FILE = "chat.log"
FAREWELL = 5.0
"""Seconds that turns of other terminals get when this one is closed."""


@asynccontextmanager
async def own_gateway(loaded: Loaded, environ: Mapping[str, str], *, prewarm: bool) -> AsyncIterator[HttpClient]:
    """Run a whole gateway in this process; raises `StoreOwned` if another gateway has the data folder."""
    log_to(loaded)
    pool = msgspec.structs.replace(loaded.settings.pool, prewarm=loaded.settings.pool.prewarm or prewarm)
    settings = msgspec.structs.replace(loaded.settings, auth=AuthSettings(), pool=pool)
    async with AsyncExitStack() as stack:
        # The folder is private, so every client of the socket is this user and needs no key.
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="ostler-chat-")))
        listener = stack.enter_context(closing(listen_unix(folder / "socket")))
        made = open_gateway(replace(loaded, settings=settings), environ, command=COMMAND)
        gateway = await stack.enter_async_context(made)
        admin = stack.enter_context(listening(loaded.data_dir))
        leave_address(loaded.data_dir, address_of(listener))
        servers = (Server.of(gateway.app), Server.of(gateway.admin, Familiar))
        tasks = TaskOwner(asyncio.get_running_loop(), log_death)
        serving = [
            tasks.start(server.serve(sockets=[place]), "the gateway of this terminal")
            for server, place in zip(servers, (listener, admin), strict=True)
        ]
        try:
            yield HttpClient(address_of(listener))
        finally:
            # Other terminals may use this gateway: let their turns end first.
            await gateway.sessions.drain(min(FAREWELL, settings.gateway.drain))
            for server in servers:
                server.stop()
            await asyncio.wait(serving)
            await tasks.disband()


def log_to(loaded: Loaded) -> None:
    """Log warnings and errors to a private file, redacted like every log of ours."""
    with usable(loaded.data_dir):
        loaded.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(loaded.data_dir / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    handler = logging.StreamHandler(os.fdopen(file, "a", encoding="utf-8"))
    handler.setFormatter(LogLines(checked(loaded.settings), form=loaded.settings.log.format, colours=False))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
