"""A whole pool in one call, for programs that import it: supervisor, providers and pool, opened and closed together.

Rules:
- Inside the pool package, only this module names the concrete classes. A gateway that wants other parts builds
  `TransportPool` itself.
- The environment flag is read here, so that every embedding obeys it.
- Closing ends every process that was started, and then the supervisor, whose reaper would have ended them after a
  crash.
"""

import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from ostler.pool import providers as known_providers
from ostler.pool.agent.per_home import PerHome
from ostler.pool.agent.transport import Transport
from ostler.pool.flag import pool_enabled
from ostler.pool.launch.configuration import PoolSettings
from ostler.pool.observer import Observer
from ostler.pool.permission import deny
from ostler.pool.pool import TransportPool
from ostler.pool.ports import PermissionPolicy, ToolPort
from ostler.pool.provider import Provider
from ostler.process.supervisor import ProcessSupervisor


def default_runtime_dir(environ: Mapping[str, str]) -> Path:
    """The default directory of the spawn ledger: private to the user, and gone after a reboot."""
    base = environ.get("XDG_RUNTIME_DIR")
    return Path(base) / "ostler" if base else Path(tempfile.gettempdir()) / f"ostler-{os.getuid()}"


@asynccontextmanager
async def open_pool(
    settings: PoolSettings | None = None,
    *,
    runtime_dir: Path | None = None,
    environ: Mapping[str, str] | None = None,
    tool_port: ToolPort | None = None,
    policy: PermissionPolicy = deny,
    providers: Mapping[str, Provider] | None = None,
    observer: Observer | None = None,
) -> AsyncIterator[TransportPool]:
    """Open a started pool on the running loop; it is shut down when the context ends."""
    # A copy: a variable that this program sets later must not start a new generation of processes.
    given = dict(os.environ if environ is None else environ)
    configured = settings or PoolSettings()
    effective = replace(configured, enabled=pool_enabled(given, configured=configured.enabled))
    supervisor = await ProcessSupervisor.open(runtime_dir or default_runtime_dir(given), secrets.token_hex(8))
    try:
        pool = TransportPool(
            effective,
            providers=known_providers.load() if providers is None else providers,
            start_transport=partial(Transport.start, supervisor=supervisor, per_home=PerHome()),
            environ=given,
            tool_port=tool_port,
            policy=policy,
            observer=observer,
        )
        async with pool:
            yield pool
    finally:
        await supervisor.aclose()
