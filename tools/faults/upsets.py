"""What can happen to a gateway that lives on: one function for each, in the table `UPSETS`.

Rules:
- An upset ends by itself and cleans up behind itself, the gateway's own duties excepted: what those are it checks.
- It answers whether it took hold, from what it saw and not from what it did. One that found nobody did nothing, which
  may happen; in a whole run each kind must have taken hold, or the run has not shown what it says.
- One that cannot be done here says so in `left_out` and does nothing.
"""

from collections.abc import Awaitable, Callable, Mapping

from tools.faults.blows import kill_agent, kill_relay, stop_agent, stop_gateway, stop_relay, wedge_agent
from tools.faults.scene import Scene
from tools.faults.shortage import fill_disk, turn_clock
from tools.faults.strangers import pull_cable, read_nothing, storm

Upset = Callable[[Scene], Awaitable[bool]]

UPSETS: Mapping[str, Upset] = {
    "agent killed": kill_agent,
    "agent stopped": stop_agent,
    "agent wedged": wedge_agent,
    "relay killed": kill_relay,
    "relay stopped": stop_relay,
    "gateway stopped": stop_gateway,
    "disk full": fill_disk,
    "clock jump": turn_clock,
    "slow clients": read_nothing,
    "half-open TCP": pull_cable,
    "connection storm": storm,
}
WEIGHTS: Mapping[str, int] = {
    "agent killed": 8, "agent stopped": 6, "relay killed": 8, "relay stopped": 6, "gateway stopped": 2, "disk full": 2,
    "clock jump": 4, "agent wedged": 1, "slow clients": 1, "half-open TCP": 1, "connection storm": 1,
}  # fmt: skip
"""How often each is drawn once every one of them has been."""
TRIED, HELD = "upsets", "upsets that took hold"


async def upset(scene: Scene, name: str) -> None:
    """One of them, and whether it did anything."""
    counts = scene.tally.counts
    counts[f"upset: {name}"] += 1
    held = await UPSETS[name](scene)
    counts[f"took hold: {name}"] += held
    counts[TRIED] += 1
    counts[HELD] += held


def without_effect(scene: Scene) -> list[str]:
    """The kinds that can be done here and have not taken hold yet."""
    tally = scene.tally
    return [name for name in UPSETS if name not in tally.left_out and not tally.counts[f"took hold: {name}"]]


def expect_all(scene: Scene) -> None:
    """Every kind that can be done here took hold at least once."""
    for name in without_effect(scene):
        tried = scene.tally.counts[f"upset: {name}"]
        scene.tally.broken.append(f"the upset did nothing, in {tried} tries: {name}")
