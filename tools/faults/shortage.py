"""What a gateway lacks for a while: room on its disk, the right time.

Rules: each answers whether it took hold, and that is what the gateway itself says: it refused for want of room, it
dated an answer wrongly.
"""

import asyncio
import time

import httpx

from tests.support.small_disk import Ballast, filled
from tools.faults.scene import Scene

MET = "requests that met the full disk"
LARGE = "x" * (1 << 20)
"""What to store where there is no room: a log that is written from its start again takes small messages for a while."""
FULL_FOR = 20.0
"""Seconds after which a full disk that nobody has met is given up."""
JUMPS = (3600, -3600, 86_400, -86_400, 40 * 86_400, -40 * 86_400)
INEXACT = 120.0


async def fill_disk(scene: Scene) -> bool:
    """No room until somebody was told so, and a while longer; then there is again."""
    if not scene.full_disk:
        scene.tally.left_out["disk full"] = "no disk of our own can be mounted here"
        return False
    with filled(scene.folder) as ballast:
        met = await knock(scene, ballast)
        await asyncio.sleep(scene.chance.uniform(0.5, 1.5))
    return met


async def knock(scene: Scene, ballast: Ballast) -> bool:
    """Ask for what does not fit, until that is refused for want of room."""
    give_up = time.monotonic() + FULL_FOR
    async with scene.gate.aside(scene.base) as http:
        while time.monotonic() < give_up:
            try:
                answer = await http.post("/v1/responses", json={"model": "demo", "input": LARGE})
            except httpx.TransportError:
                continue  # another upset took the gateway's mind off it
            if answer.status_code == 503 and answer.json()["error"]["code"] == "storage_error":
                scene.tally.counts[MET] += 1
                return True
            ballast.fill()
    return False


async def turn_clock(scene: Scene) -> bool:
    """By an hour, a day or forty, there and back."""
    if not scene.clock.turns:
        scene.tally.left_out["clock jump"] = "there is no C compiler for the clock that can be turned"
        return False
    jump = scene.chance.choice(JUMPS)
    scene.clock.turn(jump)
    try:
        await asyncio.sleep(scene.chance.uniform(0.5, 1.5))
        return abs(await dated(scene) - time.time() - jump) < INEXACT
    finally:
        scene.clock.turn(0)


async def dated(scene: Scene) -> float:
    """The time of day that the gateway gives a new answer; nought for none."""
    async with scene.gate.aside(scene.base) as http:
        try:
            answer = await http.post(
                "/v1/responses", json={"model": "demo", "input": "what time is it", "store": False}
            )
        except httpx.TransportError:
            return 0.0
    return float(answer.json()["created_at"]) if answer.status_code == 200 else 0.0
