"""The reset policy of each platform, from the settings. A platform's setting overrides the default, on or off."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ostler.gateway.chat.resets.policy import Mode, Policy
from ostler.gateway.config.errors import ConfigError
from ostler.gateway.config.settings import ResetOverride, ResetSettings

LOCALTIME = Path("/etc/localtime")


@dataclass(frozen=True, slots=True)
class PlatformGroup:
    """The platforms that share one policy."""

    policy: Policy
    only: str | None = None
    """This platform only; None means all but `besides`."""
    besides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Policies:
    """The default policy and those of single platforms."""

    default: Policy
    platforms: Mapping[str, Policy]

    def of(self, platform: str | None) -> Policy:
        """The policy of a platform."""
        return self.platforms.get(platform or "", self.default)

    def groups(self) -> list[PlatformGroup]:
        """All platforms, each in exactly one group."""
        named = [PlatformGroup(policy, only=name) for name, policy in self.platforms.items()]
        return [PlatformGroup(self.default, besides=tuple(self.platforms)), *named]


def policies_of(settings: ResetSettings, environ: Mapping[str, str]) -> Policies:
    """Build the policies. An invalid setting raises `ConfigError` at start-up, not at the first reset."""
    zone = zone_of(settings.timezone, environ)
    default = _policy(settings, ResetOverride(), zone, "resets.mode", tells=settings.notify)
    platforms = {
        name: _policy(settings, override, zone, f"resets.platforms.{name}.mode", tells=settings.notify)
        for name, override in settings.platforms.items()
    }
    return Policies(default, platforms)


def zone_of(name: str, environ: Mapping[str, str]) -> tzinfo:
    """The time zone of this name; "" is that of the machine."""
    wanted = name or environ.get("TZ", "").lstrip(":")
    try:
        if wanted:
            return ZoneInfo(wanted)
        if LOCALTIME.exists():
            with LOCALTIME.open("rb") as file:
                return ZoneInfo.from_file(file, "localtime")
        return ZoneInfo("UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError("resets.timezone", f"{wanted!r} is no time zone this machine knows: {error}") from error


def _policy(settings: ResetSettings, override: ResetOverride, zone: tzinfo, place: str, *, tells: bool) -> Policy:
    word = settings.mode if override.mode is None else override.mode
    try:
        mode = Mode(word)
    except ValueError as error:
        raise ConfigError(place, f"{word!r} is none of {', '.join(Mode)}") from error
    return Policy(
        mode,
        settings.idle if override.idle is None else override.idle,
        settings.at_hour if override.at_hour is None else override.at_hour,
        zone,
        tells if override.notify is None else override.notify,
    )
