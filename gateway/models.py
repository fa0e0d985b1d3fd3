"""What a client may call a model: an alias, `provider/model`, or the bare name of a provider for its own choice."""

from collections.abc import Mapping
from dataclasses import dataclass

from ostler.pool.launch import DEFAULT_MODEL

LONGEST = 200


def good(model: str) -> bool:
    """Whether it can be a model's name: it becomes an argument of the agent's command, and must be no option there."""
    return 0 < len(model) <= LONGEST and model.isprintable() and not model.startswith("-")


@dataclass(frozen=True, slots=True)
class Models:
    """The names this gateway knows."""

    aliases: Mapping[str, str]
    providers: frozenset[str]
    default: str
    configured: tuple[str, ...] = ()
    """Names worth listing besides the aliases."""

    def resolve(self, name: str) -> tuple[str, str] | None:
        """(provider, model), or None for a name that leads nowhere."""
        target = self.aliases.get(name, name)
        provider, slash, model = target.partition("/")
        if provider not in self.providers or (slash and not good(model)):
            return None
        return provider, model or DEFAULT_MODEL

    def listed(self) -> list[str]:
        """Every name worth showing, each once."""
        names = [self.default, *self.aliases, *self.configured]
        return list(dict.fromkeys(name for name in names if self.resolve(name) is not None))
