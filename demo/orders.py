"""The language of the demo agent: prompt text -> orders.

Rules of this file: pure. One order per line; a line that is no known order is echoed unchanged, a blank line is no
order. A known order with a wrong argument becomes a `refuse` order that answers why: the turn continues, as a model's
would.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MAX_STREAM = 10_000_000
MAX_MIB = 1024.0


class DemoOrder:
    """One action of a turn. The verb defines what `text`, `number` and `arguments` mean."""

    __slots__ = ("arguments", "number", "text", "verb")

    def __init__(
        self, verb: str, text: str = "", number: float = 0, arguments: dict[str, object] | None = None
    ) -> None:
        self.verb = verb
        self.text = text
        self.number = number
        self.arguments = arguments or {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DemoOrder) and self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash((self.verb, self.text, self.number))

    def __repr__(self) -> str:
        return f"Order{self._facts()!r}"

    def _facts(self) -> tuple[str, str, float, dict[str, object]]:
        return (self.verb, self.text, self.number, self.arguments)


class WrongArgumentError(ValueError):
    """An order got an argument that it cannot use; the text is the answer to the prompt."""


def parse_orders(text: str) -> list[DemoOrder]:
    """Return the orders of a prompt. An empty prompt is echoed too, so every prompt is answered."""
    lines = [line.rstrip("\r") for line in text.split("\n")]
    return [_order(line) for line in lines if line.strip()] or [DemoOrder("echo")]


def _order(line: str) -> DemoOrder:
    verb, _, argument = line.partition(" ")
    read = READERS.get(verb)
    if read is None:
        return DemoOrder("echo", line)
    try:
        return read(verb[1:], argument.strip())
    except WrongArgumentError as error:
        return DemoOrder("refuse", str(error))


def _bare(verb: str, argument: str) -> DemoOrder:
    if argument:
        raise WrongArgumentError(f"!{verb} takes no argument, got {argument[:80]!r}")
    return DemoOrder(verb)


def _worded(verb: str, argument: str) -> DemoOrder:
    return DemoOrder(verb, argument)


def _counted(verb: str, argument: str) -> DemoOrder:
    if not (argument.isascii() and argument.isdigit()) or len(argument) > 9 or int(argument) > MAX_STREAM:
        raise WrongArgumentError(f"!{verb} wants a whole number up to {MAX_STREAM}, got {argument[:80]!r}")
    return DemoOrder(verb, number=int(argument))


def _measured(unit: str, most: float) -> Callable[[str, str], DemoOrder]:
    def read(verb: str, argument: str) -> DemoOrder:
        try:
            number = float(argument)
        except ValueError:
            number = -1
        if not 0 <= number <= most:
            raise WrongArgumentError(f"!{verb} wants {unit} between 0 and {most:g}, got {argument[:80]!r}")
        return DemoOrder(verb, number=number)

    return read


def _chosen(*choices: str) -> Callable[[str, str], DemoOrder]:
    def read(verb: str, argument: str) -> DemoOrder:
        if argument not in choices:
            known = ", ".join(repr(choice) for choice in choices)
            raise WrongArgumentError(f"!{verb} wants one of {known}, got {argument[:80]!r}")
        return DemoOrder(verb, argument)

    return read


def _exit_code(verb: str, argument: str) -> DemoOrder:
    if argument and not (argument.isascii() and argument.isdigit() and len(argument) < 4 and int(argument) < 256):
        raise WrongArgumentError(f"!{verb} wants an exit code between 0 and 255, got {argument[:80]!r}")
    return DemoOrder(verb, number=int(argument or 1))


def _call(verb: str, argument: str) -> DemoOrder:
    name, _, rest = argument.partition(" ")
    if not name:
        raise WrongArgumentError(f"!{verb} wants a name and, after it, a JSON object")
    try:
        arguments = json.loads(rest) if rest.strip() else {}
    except (ValueError, RecursionError) as error:
        raise WrongArgumentError(f"!{verb} {name} wants a JSON object: {error}") from error
    if not isinstance(arguments, dict):
        raise WrongArgumentError(f"!{verb} {name} wants a JSON object, got {rest.strip()[:80]!r}")
    return DemoOrder(verb, name, arguments=arguments)


READERS: dict[str, Callable[[str, str], DemoOrder]] = {
    "!recall": _bare,
    "!tools": _bare,
    "!call": _call,
    "!update": _call,
    "!stream": _counted,
    "!sleep": _measured("seconds", 86_400.0),
    "!think": _worded,
    "!ask": _worded,
    "!image": _bare,
    "!die": _exit_code,
    "!hang": _chosen("", "all"),
    "!junk": _bare,
    "!bigline": _measured("a size in MiB", MAX_MIB),
    "!badutf8": _bare,
    "!stderr": _measured("a size in MiB", MAX_MIB),
    "!fork": _bare,
    "!daemon": _bare,
    "!late": _bare,
}
