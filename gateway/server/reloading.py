"""Read the configuration again while the gateway serves: on SIGHUP and on `ostler config reload`.

Rules:
- A reload takes everything or nothing. A file that cannot be read, a wrong value, or limits under which a known process
  key could not start change nothing; the error names the key.
- Reading and checking run on a thread. What was read is applied in one step of the loop, so no request sees half of it.
- Taken are API keys, the pool, providers, models and permissions (`TAKEN`). Other settings that changed are named and
  wait for a restart.
- Running turns go on. Processes that would be made differently now drain, and sessions move between two turns.
- Reloads run one after another; the last one to begin is the one that counts.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ostler.gateway.config.approval import permits_of
from ostler.gateway.config.errors import ConfigError
from ostler.gateway.config.keys import key_ring
from ostler.gateway.config.load import Loaded, changed_keys
from ostler.gateway.http.keys import Keys
from ostler.gateway.model.model_names import Models
from ostler.gateway.model.permits import PermissionRules
from ostler.gateway.turns.places import directory_check_below
from ostler.metrics.loops import Loops
from ostler.pool.core.values import SettingsError
from ostler.pool.launch.configuration import PoolSettings
from ostler.pool.launch.directories import Directories
from ostler.pool.pool import TransportPool
from ostler.pool.providers import load as load_providers
from ostler.pool.tasks import TaskOwner

READS_WITHIN = 60.0
"""Seconds after which a reload counts as stuck and turns readiness red: a revoked key may still open."""
TAKEN = (
    *("auth.api_key", "auth.keys", "auth.key_file", "auth.per_minute", "auth.concurrency"),
    *("pool.", "providers.", "models.", "gateway.default_model"),
)
LEFT = ("pool.start_late_after",)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a reload changed, by the keys of the file."""

    taken: tuple[str, ...]
    ignored: tuple[str, ...]
    """Changed, and in force after a restart only."""

    @property
    def said(self) -> str:
        """The outcome as one sentence for the log."""
        taken = f"taken: {', '.join(self.taken)}" if self.taken else "the configuration file has not changed"
        return f"{taken}; ignored until a restart: {', '.join(self.ignored)}" if self.ignored else taken


@dataclass(frozen=True, slots=True)
class Reloadable:
    """The parts of a gateway that follow a reload."""

    keys: Keys
    pool: TransportPool
    models: Models
    permits: PermissionRules
    directories: Directories
    work: Path
    """Where agents work by default. A reload does not move it."""
    equip: Callable[[PoolSettings], PoolSettings]
    """Adds the gateway's tools to the keys that are kept warm."""
    check: Callable[[Loaded], tuple[Models, PoolSettings]]
    environ: Mapping[str, str]

    def prepare(self, fresh: Loaded) -> Callable[[], None]:
        """Check a configuration, on any thread. What is returned puts it in force. Raises `ConfigError`."""
        models, wanted = self.check(fresh)
        permits = permits_of(fresh.settings, models, wanted, load_providers())
        ring = key_ring(fresh.settings.auth)
        self.keys.require_keys(ring)

        def apply() -> None:
            try:
                self.pool.reload(self.equip(wanted), self.environ)
            except SettingsError as error:
                raise ConfigError("pool", str(error)) from error
            self.keys.replace(ring)
            self.models.follow(models)
            self.permits.follow(permits)
            self.directories.judge_by(directory_check_below(wanted.roots, self.work))

        return apply


class Reloader:
    """Of one gateway. `prepare` checks a configuration on a thread and returns what applies it on the loop."""

    def __init__(
        self,
        loaded: Loaded,
        prepare: Callable[[Loaded], Callable[[], None]],
        tasks: TaskOwner,
        loops: Loops | None = None,
    ) -> None:
        self._loaded = loaded
        self._prepare = prepare
        self._tasks = tasks
        self._rounds = (loops or Loops()).add("the reload of the configuration", patience=READS_WITHIN)
        self._one_by_one = asyncio.Lock()

    def reload_soon(self) -> None:
        """Reload beside running requests, and log the outcome. No-op while the gateway ends."""
        if not self._tasks.disbanded:
            self._tasks.start(self._reload_and_log(), "the configuration is read again")

    async def reload(self) -> Reloaded:
        """Read and apply. Raises `ConfigError`, and then nothing has changed."""
        outcome: Reloaded | ConfigError = ConfigError(
            "configuration", "the reload failed; the log of the gateway says why"
        )
        async with self._one_by_one:
            with self._rounds.round():  # reports what is no `ConfigError`
                try:
                    outcome = await self._reload()
                except ConfigError as error:
                    outcome = error
        if isinstance(outcome, ConfigError):
            raise outcome
        log.log(
            logging.WARNING if outcome.ignored else logging.INFO, "the configuration was read again; %s", outcome.said
        )
        return outcome

    async def _reload(self) -> Reloaded:
        fresh, apply = await asyncio.to_thread(self._read)
        apply()
        changed = changed_keys(self._loaded, fresh)
        self._loaded = fresh
        taken = [key for key in changed if key.startswith(TAKEN) and not key.startswith(LEFT)]
        return Reloaded(tuple(taken), tuple(key for key in changed if key not in taken))

    def _read(self) -> tuple[Loaded, Callable[[], None]]:
        if self._loaded.again is None:
            raise ConfigError("configuration", "this gateway was given its settings by a program, and cannot read them")
        fresh = self._loaded.again()
        return fresh, self._prepare(fresh)

    async def _reload_and_log(self) -> None:
        try:
            await self.reload()
        except ConfigError as error:
            log.error("the configuration stays as it was: %s", error)  # noqa: TRY400 - the error says it all
