"""Clients that nobody wants: who read nothing, vanish without a word, come by the thousand.

Rules: each answers whether it took hold. A client that reads nothing is one only while the kernel has bytes for it that
the gateway wrote; one that vanished, while the gateway believes in it; a thousand at once are a thousand that are there
before the first of them asks.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

import orjson
import psutil

from tools.faults.ground import Cable
from tools.faults.scene import API_KEY, CLIENT_PATIENCE, Scene
from tools.faults.sockets import unsent

STORM = 1000
STORM_TURNS = 100
AT_ONCE = 0.9
"""Of a storm, what must be there at once for it to be one."""
SLOW = 5
MUCH = "!stream 40000"
"""Ten megabytes of events: more than the kernel takes for a client, less than an allocator would keep for ever."""
HALF_OPEN = 8
BEGUN = 90.0
"""Seconds until an answer begins, whatever else is upset."""
CUT_OFF = CLIENT_PATIENCE * 2 + 15.0
LEFT = "KB that slow clients left when they were cut off"
Door = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def read_nothing(scene: Scene) -> bool:
    """Clients that ask for much and take none of it: the gateway must end that, and not keep it in memory."""
    clients = [ask_raw(scene, "127.0.0.1", f"slow-{scene.chance.random()}", MUCH) for _ in range(SLOW)]
    stuck: dict[int, int] = {}
    try:
        mine = {client.getsockname()[1] for client in clients}

        def held() -> set[int]:
            """Those whom the gateway has not left, while it is seen for whom bytes wait."""
            stuck.update({port: size for port, size in unsent(scene.port).items() if port in mine and size})
            return mine & peers(scene)

        # Where another upset holds their agents up, nothing is written to them yet that they could leave unread.
        await scene.until(lambda: held() <= stuck.keys(), f"{SLOW} clients that read nothing are written to", BEGUN)
        await scene.until(lambda: not held(), f"{SLOW} clients that read nothing are cut off", CUT_OFF)
    finally:
        for client in clients:
            client.close()
    scene.tally.counts["slow clients that were cut off"] += len(stuck)
    scene.tally.counts[LEFT] += sum(stuck.values()) >> 10
    return bool(stuck)


def peers(scene: Scene) -> set[int]:
    """The ports of all whom the gateway holds."""
    with suppress(psutil.NoSuchProcess):
        return {one.raddr.port for one in psutil.Process(scene.pid).net_connections("tcp") if one.raddr}
    return set()


def ask_raw(scene: Scene, host: str, name: str, text: str) -> socket.socket:
    """A question on a connection with next to no room for an answer."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(10)
    client.connect((host, scene.port))
    client.sendall(request(host, {"model": "demo", "input": text, "stream": True, "conversation": name}))
    return client


def request(host: str, document: Mapping[str, object]) -> bytes:
    """POST /v1/responses; a refusal ends the connection, which would else rest for as long as an idle one may."""
    body = orjson.dumps(document)
    head = f"POST /v1/responses HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {API_KEY}\r\nconnection: close\r\n"
    return f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


THEIRS = """
import socket
clients = [socket.create_connection(({host!r}, {port}), 60) for _ in range({many})]
for client in clients: client.sendall({asked!r})
begun = [client.recv(100).split(b"\\r\\n")[0] for client in clients]
print(*sorted({{line.decode() for line in begun}}), sep=", ", flush=True)
import time; time.sleep(600)
"""


async def pull_cable(scene: Scene) -> bool:
    """Clients that vanish without a word in the middle of a turn: the gateway must find out by itself."""
    if not scene.inside:
        scene.tally.left_out["half-open TCP"] = "no network namespace is allowed here"
        return False
    cable = Cable(scene.tally.counts["upset: half-open TCP"] % 256)
    try:
        if not cable.laid:
            scene.tally.left_out["half-open TCP"] = "no cable to a second network namespace: `ip` or the right to it"
            return False
        document = {"model": "demo", "input": "hello\n!sleep 60", "stream": True}
        code = THEIRS.format(host=cable.here, port=scene.port, many=HALF_OPEN, asked=request(cable.here, document))
        said = await asyncio.to_thread(cable.run, code)
        # Beside a full disk they are refused, and a turn whose agent is killed ends: nobody is left to vanish then.
        scene.tally.expect(said.startswith("HTTP/1.1 "), f"clients at the other end of the cable were told {said!r}")
        cable.pull()
        lost = scene.connections(cable.there)
        gone = f"{HALF_OPEN} half-open connections go"
        return await scene.until(lambda: not scene.connections(cable.there), gone, CUT_OFF) and lost > 0
    finally:
        cable.end()


async def storm(scene: Scene) -> bool:
    """A thousand connections at once, a hundred of them with a turn: each gets an answer or a clear no."""
    counts = scene.tally.counts
    doors = await asyncio.gather(*(come(scene) for _ in range(STORM)))
    there = sum(door is not None for door in doors)
    counts["storm: most at once"] = max(counts["storm: most at once"], there)
    answers = Counter(await asyncio.gather(*(ask(door, number) for number, door in enumerate(doors))))
    counts.update({f"storm: {answer}": many for answer, many in answers.items()})
    scene.tally.expect(answers["nothing"] == 0, f"{answers['nothing']} of {STORM} connections got no answer at all")
    return there >= STORM * AT_ONCE


async def come(scene: Scene) -> Door | None:
    """One connection that says nothing yet; None where nobody opened."""
    try:
        async with asyncio.timeout(60):
            return await asyncio.open_connection("127.0.0.1", scene.port)
    except (OSError, TimeoutError):
        return None


async def ask(door: Door | None, number: int) -> str:
    """The status of its answer."""
    if door is None:
        return "nothing"
    asked = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    if number % (STORM // STORM_TURNS) == 0:
        asked = request("localhost", {"model": "demo", "input": f"storm {number}", "store": False})
    reader, writer = door
    try:
        async with asyncio.timeout(60):
            writer.write(asked)
            line = await reader.readline()
    except (OSError, TimeoutError):
        line = b""
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    return line.split()[1].decode() if line else "nothing"
