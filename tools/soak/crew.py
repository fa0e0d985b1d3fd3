"""The agents of a soak: the demo agent in three forms always, real ones offline where `make agents` installed them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ostler.demo.launch import command_line
from tools.agents.pins import PINS, cache_folder
from tools.agents.recipes import RECIPES, Place, Unavailable

REAL = ("gemini-acp", "codex-app-server")


@dataclass(frozen=True)
class Hand:
    """One kind of agent and how many of a hundred sessions it gets."""

    model: str
    share: int
    section: Mapping[str, Any] | None = None

    @property
    def provider(self) -> str:
        return self.model.partition("/")[0]


def muster(folder: Path, llm: str) -> tuple[list[Hand], dict[str, str]]:
    """Who is there, and why others are not."""
    plain = {"command": command_line(["--no-load", "--no-close"]), "approval": "ask"}
    crew = [Hand("demo/one", 45), Hand("demo/two", 30), Hand("acp/plain", 2, plain)]
    absent: dict[str, str] = {}
    for pin in PINS:
        if pin.provider not in REAL:
            continue
        install, home = pin.home(cache_folder()), folder / f"home-{pin.provider}"
        if not install.is_dir():
            absent[pin.provider] = "`make agents` installs it"
            continue
        home.mkdir()
        try:
            recipe = RECIPES[pin.provider](Place(install, home, llm))
        except Unavailable as reason:
            absent[pin.provider] = str(reason)
            continue
        settings = recipe.settings
        section = {"env": dict(settings.env), "home": settings.home}
        crew.append(Hand(f"{pin.provider}/{recipe.model}", 10, section))
    return crew, absent


def document(crew: Sequence[Hand], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a gateway with these."""
    sections = {hand.provider: dict(hand.section) for hand in crew if hand.section is not None}
    return {**settings, "providers": sections}


def models(crew: Sequence[Hand], many: int) -> list[str]:
    """The model of each of so many sessions, in shares."""
    whole = [hand.model for hand in crew for _ in range(hand.share)]
    return [whole[number * len(whole) // many] for number in range(many)]
