"""The switch that operators reach for first: `OSTLER_TRANSPORT_POOL_ENABLED`.

Rules:
- Set, it overrides the configuration both ways. Unset or empty, the configuration decides; the default is on.
- A value that is neither on nor off stops the start: a guess would turn the pool on or off without the operator
  knowing.
"""

from collections.abc import Mapping

from ostler.pool.errors import PoolError

VARIABLE = "OSTLER_TRANSPORT_POOL_ENABLED"
_ON = frozenset({"1", "true", "yes", "on"})
_OFF = frozenset({"0", "false", "no", "off"})


class BadFlag(PoolError, ValueError):
    """The variable's value is neither on nor off."""

    def __init__(self, value: str) -> None:
        super().__init__(
            f"{VARIABLE}={value!r} is neither on nor off; use one of 1, true, yes, on or 0, false, no, off, or unset it"
        )
        self.variable = VARIABLE
        self.value = value


def pool_enabled(environ: Mapping[str, str], *, configured: bool = True) -> bool:
    """Whether agent processes are shared. Raises `BadFlag`."""
    value = environ.get(VARIABLE, "").strip().lower()
    if not value:
        return configured
    if value in _ON:
        return True
    if value in _OFF:
        return False
    raise BadFlag(environ[VARIABLE])
