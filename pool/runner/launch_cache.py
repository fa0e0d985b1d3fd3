"""What the pool can start: from settings and providers to keys, launches and the core's specs.

Rules:
- One builder (`launch`) makes every command and fingerprint. Nothing else in the pool reads argv or environment, so the
  warm path and the claim path cannot differ.
- A launch is built once per key and kept until `refresh` replaces it because its inputs changed (settings, a credential
  file).
- New settings make every launch stale, not wrong: a start that the core still orders with the old fingerprint uses the
  old launch, and that process ends when the core learns of the new one. Nothing is read on the loop for it: a claim of
  a stale key has the launch rebuilt on a thread first.
"""

from collections.abc import Hashable, Mapping
from typing import TypeVar

from ostler.pool.core.values import CoreSharing, KeySpec, Traits
from ostler.pool.errors import UnknownProvider
from ostler.pool.keys import TransportKey, canonical_cwd
from ostler.pool.launch.builder import Launch, launch, spare_of
from ostler.pool.launch.configuration import PoolSettings
from ostler.pool.launch.settings import ProviderSettings
from ostler.pool.provider import CloseVerb, Provider, callings
from ostler.pool.runner.live import PoolKey

Given = TypeVar("Given")

SEAT_BYTES = 8 << 20
PROCESS_BYTES = 256 << 20


class LaunchCache:
    """The launch of every key that was ever asked for, built from the current settings."""

    def __init__(self, settings: PoolSettings, providers: Mapping[str, Provider], environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._providers = providers
        self._names = callings(providers)
        self._environ = environ
        self._surroundings = frozenset(environ.items())
        self._launches: dict[TransportKey, Launch] = {}
        self._stale: set[TransportKey] = set()
        self.edition = 0
        """The number of the current settings: a launch built for another edition must not be used."""

    def named(self, key: TransportKey) -> TransportKey:
        """The key with its provider's full name. Raises `UnknownProvider`."""
        name = self._names.get(key.provider)
        if name is None:
            raise UnknownProvider(key.provider, list(self._names))
        return key if name == key.provider else TransportKey(name, key.model, key.cwd)

    def resolve_directory(self, cwd: str) -> str:
        """The directory's canonical name, if it is allowed; may run on any thread. Raises `BadDirectory`."""
        return canonical_cwd(cwd, self._settings.roots)

    def launch(self, key: TransportKey) -> Launch:
        """How a process of this key is started. Raises `AgentMissing`, `BadSetting`."""
        known = self._launches.get(key)
        if known is None:
            known = self._launches[key] = self.build(key)
        return known

    def is_current(self, key: TransportKey) -> bool:
        """Whether `launch` has nothing to read and its result agrees with the current settings."""
        return key in self._launches and key not in self._stale

    def place(self, key: TransportKey) -> Hashable:
        """Identifies where a key's files lie, as far as settings and environment tell: keys of one place depend on one
        disk.
        """
        settings = self._of_provider(key)
        named = (settings.home, settings.command, frozenset(settings.env.items()))
        return (key.provider, *named, self._surroundings)

    def spare(self, key: TransportKey) -> Launch:
        """How a spare is started that any key with this provider, model and fingerprint may adopt."""
        return spare_of(self.launch(key))

    def refresh(self, fresh: Launch) -> None:
        """Use this launch for its key from now on."""
        self._launches[fresh.key] = fresh
        self._stale.discard(fresh.key)

    def forget(self, key: TransportKey) -> None:
        """Drop the launch: the core dropped the key, or the key cannot be launched."""
        self._launches.pop(key, None)
        self._stale.discard(key)

    def replace(self, settings: PoolSettings, environ: Mapping[str, str]) -> None:
        """Take new settings: every launch becomes stale until it is refreshed."""
        self._settings = settings
        self._environ = environ
        self._surroundings = frozenset(environ.items())
        self._stale = set(self._launches)
        self.edition += 1

    def spec(self, key: PoolKey) -> KeySpec:
        """What the core must know of a key."""
        known = self.launch(key.key)
        limits = self._settings.limits
        traits = traits_of(known, private=key.private)
        shared = self._settings.enabled and not key.private
        return KeySpec(
            provider=known.provider.name,
            fingerprint=known.fingerprint,
            traits=traits,
            spares=self._given(self._settings.spares, key.key.provider, 0) if shared and traits.cwd_per_session else 0,
            max_processes=limits.max_processes if key.private else None,
            reserve=None if key.owner is None else PoolKey(key.key),
        )

    def build(self, key: TransportKey) -> Launch:
        """Build a launch from the current files, and keep nothing. Reads files; may run on any thread. Raises as
        `launch`.
        """
        provider = self._providers[key.provider]
        return launch(provider, self._of_provider(key), key, self._environ)

    def _of_provider(self, key: TransportKey) -> ProviderSettings:
        return self._given(self._settings.providers, key.provider, ProviderSettings())

    def _given(self, table: Mapping[str, Given], name: str, default: Given) -> Given:
        """The settings' entry for a provider, by its full name, else by a short name."""
        called = next((word for word in table if self._names.get(word) == name), name)
        return table.get(name, table.get(called, default))


def placed(key: TransportKey, cwd: str) -> TransportKey:
    """The key with this directory."""
    return key if cwd == key.cwd else TransportKey(key.provider, key.model, cwd)


def traits_of(known: Launch, *, private: bool) -> Traits:
    """A provider's declaration as the core's traits. A private process serves one session, even if its provider allows
    more.
    """
    provider = known.provider
    ends = provider.close is not CloseVerb.NONE
    alone = private or provider.sharing.value != CoreSharing.SESSIONS.value
    return Traits(
        sharing=CoreSharing.NONE if private else CoreSharing(provider.sharing.value),
        seats_per_process=1 if alone else provider.seats_per_process,
        # If the agent cannot end sessions, the leaked ones use the memory; live ones are no reason to replace a
        # process.
        recycle_after_seats=provider.recycle_after if ends else None,
        recycle_after_leaks=None if ends else provider.recycle_after,
        can_close=ends,
        open_group=f"{provider.name}:{known.home}",
        parallel_opens=provider.parallel_opens,
        first_start_alone=provider.first_start_alone,
        refill_pause=provider.refill_pause,
        # Every dialect we speak names the cwd when it opens a session. Where sessions are shared by cwd, or not at all,
        # a process is bound to its first one.
        cwd_per_session=not alone,
        start_seconds=provider.expected_start,
        start_bytes=PROCESS_BYTES,
        seat_bytes=max(SEAT_BYTES, int(PROCESS_BYTES * provider.seat_weight)),
    )
