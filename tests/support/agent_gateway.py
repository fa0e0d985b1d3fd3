"""A whole gateway in front of one agent of the contract suite."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ostler.pool.provider import Level, Provider
from tests.support.served import Served, client, gateway_at
from tools.agents.recipes import Recipe


def section(provider: Provider, recipe: Recipe) -> dict[str, Any]:
    """The recipe as a section of the configuration."""
    known = recipe.settings
    told = {"env": dict(known.env), "home": known.home, "command": known.command, "args": list(known.args)}
    return {provider.name: {name: value for name, value in told.items() if value}}


def allowed(provider: Provider) -> dict[str, str]:
    """What its operator must say of an agent that can be held to nothing."""
    return {} if Level.WORKSPACE in provider.levels else {f"{provider.name}/*": Level.AUTO.value}


@asynccontextmanager
async def gateway(
    provider: Provider, recipe: Recipe, tmp_path: Path, level: Level, **more: Any
) -> AsyncIterator[Served]:
    """A whole gateway at this level, with nothing else said."""
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    settings = {
        "pool__permissions": level.value,
        "gateway__default_model": f"{provider.name}/{recipe.model}",
        "gateway__default_cwd": str(work),
        **more,
    }
    made = gateway_at(tmp_path / "data", section(provider, recipe), {}, settings)
    async with made as (running, base), client(base) as http:
        http.timeout = 110
        yield Served(running, http, tmp_path / "data", tmp_path / "record.jsonl", base)
