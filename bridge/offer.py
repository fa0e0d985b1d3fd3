"""The tools of one source: their definitions for the agent, and the dispatcher of their calls.

Rules: offers are put side by side, never merged. A name belongs to one offer; two tools with one name are a
configuration mistake and are rejected before an agent sees either.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ostler.bridge.calls import CallResult, Dispatcher, ToolCall
from ostler.bridge.errors import DuplicateTool, UnknownTool
from ostler.wire.json import JsonObject


@dataclass(frozen=True, slots=True)
class Offer:
    """The two arguments that `publish` takes."""

    definitions: Sequence[JsonObject]
    dispatcher: Dispatcher


class Switchboard:
    """A dispatcher that chooses another dispatcher by tool name."""

    __slots__ = ("_by_name",)

    def __init__(self, by_name: dict[str, Dispatcher]) -> None:
        self._by_name = by_name

    async def __call__(self, call: ToolCall, /) -> CallResult:
        dispatcher = self._by_name.get(call.name)
        if dispatcher is None:
            return CallResult.error(str(UnknownTool(call.name)))
        return await dispatcher(call)


def combined(offers: Iterable[Offer]) -> Offer:
    definitions: list[JsonObject] = []
    by_name: dict[str, Dispatcher] = {}
    for offer in offers:
        for definition in offer.definitions:
            name: str = definition["name"]
            if name in by_name:
                raise DuplicateTool(name)
            by_name[name] = offer.dispatcher
            definitions.append(definition)
    return Offer(tuple(definitions), Switchboard(by_name))
