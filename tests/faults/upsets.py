"""What can happen to a gateway that lives on: one function for each, in the table `UPSETS`.

Rules: an upset ends by itself and cleans up behind itself, the gateway's own duties excepted: what those are it
checks. One that cannot be done here says so in `left_out` and does nothing.
"""

import asyncio
import os
import shutil
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import orjson
import psutil

from tests.faults.ground import Cable
from tests.faults.scene import API_KEY, CLIENT_PATIENCE, Scene

STORM = 1000
STORM_TURNS = 100
SLOW = 5
MUCH = "!stream 40000"
"""Ten megabytes of events: more than the kernel takes for a client, less than an allocator would keep for ever."""
HALF_OPEN = 8
JUMPS = (3600, -3600, 86_400, -86_400, 40 * 86_400, -40 * 86_400)
CUT_OFF = CLIENT_PATIENCE * 2 + 15.0
Upset = Callable[[Scene], Awaitable[None]]


async def kill_agent(scene: Scene) -> None:
    await kill_one(scene, scene.agents())


async def kill_relay(scene: Scene) -> None:
    await kill_one(scene, scene.relays())


async def stop_agent(scene: Scene) -> None:
    await stop_one(scene, scene.agents())


async def stop_relay(scene: Scene) -> None:
    await stop_one(scene, scene.relays())


async def kill_one(scene: Scene, found: list[psutil.Process]) -> None:
    if found:
        with suppress(psutil.NoSuchProcess):
            scene.chance.choice(found).kill()


async def stop_one(scene: Scene, found: list[psutil.Process]) -> None:
    """Longer than an answer takes, shorter than the gateway's patience; the other way round is `wedge_agent`."""
    if found:
        await asleep(scene.chance.choice(found), scene.chance.uniform(0.3, 3.0))


async def wedge_agent(scene: Scene) -> None:
    """One that does not come back in time: its turns must fail by themselves, the others go on."""
    if found := scene.agents():
        await asleep(scene.chance.choice(found), 18.0)


async def asleep(process: psutil.Process, seconds: float) -> None:
    with suppress(psutil.NoSuchProcess):
        process.suspend()
        try:
            await asyncio.sleep(seconds)
        finally:
            with suppress(psutil.NoSuchProcess):
                process.resume()


async def stop_gateway(scene: Scene) -> None:
    """As when a laptop sleeps."""
    await asleep(psutil.Process(scene.pid), scene.chance.uniform(0.3, 2.0))


async def fill_disk(scene: Scene) -> None:
    """No room for a while, then there is again."""
    if not scene.full_disk:
        scene.left_out["disk full"] = "no disk of our own can be mounted here"
        return
    ballast = scene.folder / f"ballast-{scene.counts['upset: disk full']}"
    with ballast.open("wb", buffering=0) as file:
        with suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(scene.folder).free)
        with suppress(OSError):
            while True:
                file.write(bytes(65_536))
    await asyncio.sleep(scene.chance.uniform(0.5, 1.5))
    ballast.unlink()


async def turn_clock(scene: Scene) -> None:
    """By an hour, a day or forty, there and back."""
    if not scene.clock.turns:
        scene.left_out["clock jump"] = "there is no C compiler for the clock that can be turned"
        return
    scene.clock.turn(scene.chance.choice(JUMPS))
    await asyncio.sleep(scene.chance.uniform(0.5, 1.5))
    scene.clock.turn(0)


async def read_nothing(scene: Scene) -> None:
    """Clients that ask for much and take none of it: the gateway must end that, and not keep it in memory."""
    clients = [ask_raw(scene, "127.0.0.1", f"slow-{scene.chance.random()}", MUCH) for _ in range(SLOW)]
    mine = {client.getsockname()[1] for client in clients}

    def held() -> bool:
        with suppress(psutil.NoSuchProcess):
            return any(one.raddr and one.raddr.port in mine for one in psutil.Process(scene.pid).net_connections("tcp"))
        return False

    await scene.until(lambda: not held(), f"{SLOW} clients that read nothing are cut off", CUT_OFF)
    for client in clients:
        client.close()


def ask_raw(scene: Scene, host: str, name: str, text: str) -> socket.socket:
    """A question on a connection with next to no room for an answer."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(10)
    client.connect((host, scene.port))
    client.sendall(request(host, {"model": "demo", "input": text, "stream": True, "conversation": name}))
    return client


def request(host: str, document: Mapping[str, object]) -> bytes:
    """POST /v1/responses"""
    body = orjson.dumps(document)
    head = f"POST /v1/responses HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {API_KEY}\r\n"
    return f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


THEIRS = """
import socket
clients = [socket.create_connection(({host!r}, {port}), 60) for _ in range({many})]
for client in clients: client.sendall({asked!r})
for client in clients: client.recv(100)
print("open", flush=True)
import time; time.sleep(600)
"""


async def pull_cable(scene: Scene) -> None:
    """Clients that vanish without a word, half of them in the middle of a turn: the gateway must find out by itself."""
    if not scene.inside:
        scene.left_out["half-open TCP"] = "no network namespace is allowed here"
        return
    cable = Cable(scene.counts["upset: half-open TCP"] % 256)
    try:
        if not cable.laid:
            scene.left_out["half-open TCP"] = "no cable to a second network namespace: `ip` or the right to use it"
            return
        document = {"model": "demo", "input": "hello\n!sleep 60", "stream": True}
        code = THEIRS.format(host=cable.here, port=scene.port, many=HALF_OPEN, asked=request(cable.here, document))
        said = await asyncio.to_thread(cable.run, code)
        scene.expect(said == "open\n", f"the clients at the other end of the cable said {said!r}")
        cable.pull()
        lost = scene.connections(cable.there)
        scene.expect(lost == HALF_OPEN, f"{lost} connections were half open, not {HALF_OPEN}")
        await scene.until(lambda: not scene.connections(cable.there), f"{HALF_OPEN} half-open connections go", CUT_OFF)
    finally:
        cable.end()


async def storm(scene: Scene) -> None:
    """A thousand connections at once, a hundred of them with a turn: each gets an answer or a clear no."""
    answers = Counter(await asyncio.gather(*(knock(scene, number) for number in range(STORM))))
    scene.counts.update({f"storm: {answer}": many for answer, many in answers.items()})
    scene.expect(answers["nothing"] == 0, f"{answers['nothing']} of {STORM} connections got no answer at all")


async def knock(scene: Scene, number: int) -> str:
    """One connection."""
    asked = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    if number % (STORM // STORM_TURNS) == 0:
        asked = request("localhost", {"model": "demo", "input": f"storm {number}", "store": False})
    try:
        async with asyncio.timeout(60):
            reader, writer = await asyncio.open_connection("127.0.0.1", scene.port)
            writer.write(asked)
            line = await reader.readline()
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
    except (OSError, TimeoutError):
        return "nothing"
    return line.split()[1].decode() if line else "nothing"


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
