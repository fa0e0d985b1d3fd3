"""Errors of a configuration. Each names the place (file or variable), the key, and what to do."""

from difflib import get_close_matches

from ostler.gateway.model.errors import GatewayError


class ConfigError(GatewayError):
    """The gateway cannot start with this configuration."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place}: {why}")
        self.place = place
        self.why = why


class UnknownSettingKey(ConfigError):
    """A key that nothing reads. It is an error because an accepted typo would be a setting that silently has no
    effect."""

    def __init__(self, place: str, key: str, known: list[str]) -> None:
        near = get_close_matches(key.rpartition(".")[2], known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(sorted(known))}"
        super().__init__(place, f"unknown key {key!r}; {hint}")
        self.key = key
        self.nearest = near[0] if near else None


class UnknownVariable(ConfigError):
    """An `OSTLER_...` variable that nothing reads; see `UnknownSettingKey`."""

    def __init__(self, name: str, known: list[str]) -> None:
        near = get_close_matches(name, sorted(known), n=1, cutoff=0.75)
        hint = f"did you mean {near[0]}?" if near else "settings are called OSTLER_<SECTION>__<KEY>."
        super().__init__(name, f"nothing reads this variable; {hint} Correct it or unset it")
        self.name = name
        self.nearest = near[0] if near else None
