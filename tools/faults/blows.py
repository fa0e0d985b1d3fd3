"""Blows at processes: killed, put to sleep, put to sleep for longer than anybody waits.

Rules: each answers whether it took hold. A blow at nobody, or at somebody who was just going, did nothing.
"""

import asyncio
from contextlib import suppress

import psutil

from tools.faults.scene import Scene, words

WEDGED_FOR = 18.0
"""Seconds: more than the gateway waits for a sign of life of a turn."""
FALLS_ASLEEP = 0.2
GONE = 10.0


async def kill_agent(scene: Scene) -> bool:
    return await kill_one(scene, scene.agents())


async def kill_relay(scene: Scene) -> bool:
    return await kill_one(scene, scene.relays())


async def stop_agent(scene: Scene) -> bool:
    return await stop_one(scene, scene.agents())


async def stop_relay(scene: Scene) -> bool:
    return await stop_one(scene, scene.relays())


async def kill_one(scene: Scene, found: list[psutil.Process]) -> bool:
    """Whether somebody who lived is dead."""
    if not found:
        return False
    victim = scene.chance.choice(found)
    if not words(victim):
        return False
    try:
        victim.kill()
    except psutil.NoSuchProcess:
        return False
    return await scene.until(lambda: not words(victim), f"pid {victim.pid} is gone after SIGKILL", GONE)


async def stop_one(scene: Scene, found: list[psutil.Process]) -> bool:
    """Longer than an answer takes, shorter than the gateway's patience; the other way round is `wedge_agent`."""
    return await asleep(scene, found, scene.chance.uniform(0.3, 3.0))


async def wedge_agent(scene: Scene) -> bool:
    """One that sessions sit on does not come back in time: its turns must fail by themselves, the others go on."""
    seated = await scene.seated()
    return await asleep(scene, [one for one in scene.agents() if seated.get(one.pid)], WEDGED_FOR)


async def stop_gateway(scene: Scene) -> bool:
    """As when a laptop sleeps."""
    return await asleep(scene, [psutil.Process(scene.pid)], scene.chance.uniform(0.3, 2.0))


async def asleep(scene: Scene, found: list[psutil.Process], seconds: float) -> bool:
    """One of these that is awake sleeps. Whether it did, to the end or until somebody killed it in its sleep."""
    awake = [one for one in found if words(one) and not is_stopped(one)]
    if not awake:
        return False
    process = scene.chance.choice(awake)
    try:
        process.suspend()
    except psutil.NoSuchProcess:
        return False
    try:
        await asyncio.sleep(FALLS_ASLEEP)
        slept = is_stopped(process)
        await asyncio.sleep(seconds - FALLS_ASLEEP)
        return slept and (is_stopped(process) or not words(process))
    finally:
        with suppress(psutil.NoSuchProcess):
            process.resume()


def is_stopped(process: psutil.Process) -> bool:
    """What the kernel says."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() == psutil.STATUS_STOPPED)
    return False
