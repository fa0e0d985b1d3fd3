"""What a client may call a model: an alias, `provider/model`, or the bare name of a provider for its usual choice.

Rules: a provider goes by its name and by what people call it (`gemini` for `gemini-acp`); what is resolved always has
the name. The usual choice is the model of the default, where that is of this provider, else the agent's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ostler.pool.launch.builder import DEFAULT_MODEL

LONGEST = 200
MOST_SHOWN = 20


def good(model: str) -> bool:
    """Whether it can be a model's name: it becomes an argument of the agent's command, and must be no option there."""
    return 0 < len(model) <= LONGEST and model.isprintable() and not model.startswith("-")


@dataclass(slots=True)
class Models:
    """The names this gateway knows. Shared by all who ask; a reload changes them in place."""

    aliases: Mapping[str, str]
    providers: Mapping[str, str]
    """What a provider may be called, and its name."""
    default: str
    configured: tuple[str, ...] = ()
    """Names worth listing besides the aliases."""

    def follow(self, fresh: "Models") -> None:
        """Know these names instead."""
        self.aliases, self.providers = fresh.aliases, fresh.providers
        self.default, self.configured = fresh.default, fresh.configured

    def resolve(self, name: str) -> tuple[str, str] | None:
        """(provider, model), or None for a name that leads nowhere."""
        called, slash, model = self.aliases.get(name, name).partition("/")
        provider = self.providers.get(called)
        if provider is None or (slash and not good(model)):
            return None
        return provider, model or self._usual(provider)

    def listed(self) -> list[str]:
        """Every name worth showing, each once."""
        names = [self.default, *self.aliases, *self.configured]
        return list(dict.fromkeys(name for name in names if self.resolve(name) is not None))

    def offered(self, *, to_all: bool = True) -> str:
        """What there is, for somebody who asked for something else. Each provider as people call it. `to_all`: whether
        the asker may know of all that there is."""
        if not to_all:
            return "GET /v1/models lists what this key may use"
        called: dict[str, str] = {}
        for word, name in self.providers.items():
            called[name] = min(called.get(name, word), word, key=len)
        names = ", ".join(self.listed()[:MOST_SHOWN])
        return (
            f"{names}; or provider, or provider/model, with one of the providers {', '.join(sorted(called.values()))}"
        )

    def _usual(self, provider: str) -> str:
        called, _, model = self.aliases.get(self.default, self.default).partition("/")
        return model if model and self.providers.get(called) == provider else DEFAULT_MODEL
