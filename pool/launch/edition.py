"""One edition of the operator's settings: what keys, launches and the core's specs are made from.

Rules:
- A value. New settings are a new edition, and what was read for another edition is not used.
- One builder (`launch`) makes every command and fingerprint. Nothing else in the pool reads argv or environment, so the
  warm path and the claim path cannot differ.
"""

from collections.abc import Hashable, Mapping
from typing import Final, TypeVar

from ostler.pool.core.values import CoreSharing, KeySpec, Traits
from ostler.pool.errors import UnknownProvider
from ostler.pool.keys import PoolKey, TransportKey, canonical_cwd
from ostler.pool.launch.builder import Launch, launch
from ostler.pool.launch.configuration import PoolSettings
from ostler.pool.launch.settings import ProviderSettings
from ostler.pool.provider import CloseVerb, Provider, callings

Given = TypeVar("Given")

SEAT_BYTES: Final = 8 << 20
PROCESS_BYTES: Final = 256 << 20


class SettingsEdition:
    """Settings, providers and environment as of one start or reload."""

    def __init__(self, settings: PoolSettings, providers: Mapping[str, Provider], environ: Mapping[str, str]) -> None:
        self.settings = settings
        self._providers = providers
        self._names = callings(providers)
        self._environ = environ
        self._surroundings = frozenset(environ.items())

    def next(self, settings: PoolSettings, environ: Mapping[str, str]) -> "SettingsEdition":
        """The edition after a reload."""
        return SettingsEdition(settings, self._providers, environ)

    def named(self, key: TransportKey) -> TransportKey:
        """The key with its provider's full name. Raises `UnknownProvider`."""
        name = self._names.get(key.provider)
        if name is None:
            raise UnknownProvider(key.provider, list(self._names))
        return key if name == key.provider else TransportKey(name, key.model, key.cwd)

    def resolve_directory(self, cwd: str) -> str:
        """The directory's canonical name, if it is allowed; may run on any thread. Raises `BadDirectory`."""
        return canonical_cwd(cwd, self.settings.roots)

    def build(self, key: TransportKey) -> Launch:
        """Build a launch from the current files. May run on any thread. Raises `AgentMissing`, `BadSetting`."""
        return launch(self._providers[key.provider], self._of_provider(key), key, self._environ)

    def place(self, key: TransportKey) -> Hashable:
        """Identifies where a key's files lie, as far as settings and environment tell: keys of one place depend on one
        disk.
        """
        settings = self._of_provider(key)
        return (key.provider, settings.home, settings.command, frozenset(settings.env.items()), self._surroundings)

    def spec(self, key: PoolKey, known: Launch) -> KeySpec:
        """What the core must know of a key that is launched like this."""
        traits = traits_of(known, private=key.private)
        spared = self.settings.enabled and not key.private and traits.cwd_per_session
        return KeySpec(
            provider=known.provider.name,
            fingerprint=known.fingerprint,
            traits=traits,
            spares=self._given(self.settings.spares, key.key.provider, 0) if spared else 0,
            max_processes=self.settings.limits.max_processes if key.private else None,
            reserve=None if key.owner is None else PoolKey(key.key),
        )

    def _of_provider(self, key: TransportKey) -> ProviderSettings:
        return self._given(self.settings.providers, key.provider, ProviderSettings())

    def _given(self, table: Mapping[str, Given], name: str, default: Given) -> Given:
        """The settings' entry for a provider, by its full name, else by a short name."""
        called = next((word for word in table if self._names.get(word) == name), name)
        return table.get(name, table.get(called, default))


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
