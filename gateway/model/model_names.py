"""Names that a client may use for a model: an alias, `provider/model`, or a provider alone for its usual model.

Rules:
- A provider has its name and aliases (`gemini` for `gemini-acp`); a resolved model always has the name.
- The usual model of a provider is that of the gateway's default model if that is of this provider, else the agent's
  own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ostler.pool.launch.builder import DEFAULT_MODEL

LONGEST = 200
MOST_SHOWN = 20


def good(model: str) -> bool:
    """Whether it can be a model's name. It becomes an argument of the agent's command, so it must not look like an
    option."""
    return 0 < len(model) <= LONGEST and model.isprintable() and not model.startswith("-")


@dataclass(slots=True)
class Models:
    """The model names that this gateway knows. One object for the whole gateway; a reload changes it in place."""

    aliases: Mapping[str, str]
    providers: Mapping[str, str]
    """The name of each provider, by its name and by each alias."""
    default: str
    configured: tuple[str, ...] = ()
    """Names to list in addition to the aliases."""

    def follow(self, fresh: "Models") -> None:
        """Replace the names by those of a fresh configuration."""
        self.aliases, self.providers = fresh.aliases, fresh.providers
        self.default, self.configured = fresh.default, fresh.configured

    def resolve(self, name: str) -> tuple[str, str] | None:
        """Return (provider, model), or None for an unknown name."""
        called, slash, model = self.aliases.get(name, name).partition("/")
        provider = self.providers.get(called)
        if provider is None or (slash and not good(model)):
            return None
        return provider, model or self._usual(provider)

    def listed(self) -> list[str]:
        """Return every name to show to a client, each once."""
        names = [self.default, *self.aliases, *self.configured]
        return list(dict.fromkeys(name for name in names if self.resolve(name) is not None))

    def offered(self, *, to_all: bool = True) -> str:
        """Return the available models for an error message, providers by their shortest alias. `to_all`: whether the
        caller may know of all models; otherwise the text only points to `GET /v1/models`."""
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
