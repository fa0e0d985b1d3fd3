"""Recipes of what ships with the package: the demo agent, and the generic provider playing it."""

from collections.abc import Callable, Mapping
from pathlib import Path

from ostler.pool.launch.finder import PathFinder
from ostler.pool.launch.settings import ProviderSettings
from ostler.pool.providers import demo
from tools.agents.recipes import Recipe

CHANNELS = ("--mcp-http", "--mcp-acp")


def as_itself(home: Path) -> Recipe:
    return Recipe(ProviderSettings(home=str(home), args=CHANNELS), "demo", asks="!ask")


def as_generic(home: Path) -> Recipe:
    command = demo.find(PathFinder(""))
    return Recipe(ProviderSettings(home=str(home), command=command, args=CHANNELS), "demo", asks="!ask")


BUILT_IN: Mapping[str, Callable[[Path], Recipe]] = {"demo": as_itself, "acp": as_generic}
