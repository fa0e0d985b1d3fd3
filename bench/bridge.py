"""What a tool call costs: `python -m bench.bridge [asyncio|uvloop]`.

The bridge runs in a process of its own, pinned to one core; the load runs on another. Every ratio is measured in one
run, against a C echo on the same kind of socket with the same client. Clients block and do as little as possible.
"""

import asyncio
import json
import os
import random
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.server import Bridge
from ostler.bridge.settings import BridgeSettings

TOOLS = [
    {
        "name": f"tool_{number}",
        "description": "Looks something up and says what it found.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    }
    for number in range(10)
]
FRAME = 200
WARM = 200


async def answer(_: ToolCall) -> CallResult:
    return CallResult.text("x" * 80)


def call_frame(number: int) -> bytes:
    params: dict[str, Any] = {"name": "tool_1", "arguments": {"text": ""}}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    params["arguments"]["text"] = "x" * (FRAME - len(json.dumps(message)) - 1)
    return json.dumps(message).encode() + b"\n"


def opening() -> bytes:
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "0"}}
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": about},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "l", "method": "tools/list"},
    ]
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


# -- the bridge's process ---------------------------------------------------------------------------------------------


async def serve(directory: str) -> None:
    """Commands on stdin, one JSON line each; answers on stdout."""
    bridge = Bridge(BridgeSettings(data_directory=Path(directory)))
    await bridge.start()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        opened = []
        for session in range(int(line)):
            binding = bridge.open(TOOLS)
            bridge.publish(binding, TOOLS, answer, f"session-{session}")
            opened.append({"token": binding.token, "argv": binding.relay.argv, "env": dict(binding.relay.env)})
        print(json.dumps(opened), flush=True)
    await bridge.stop()


class Server:
    def __init__(self, directory: Path, loop: str) -> None:
        command = [sys.executable, "-m", "bench.bridge", "serve", loop, str(directory)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        os.sched_setaffinity(self.process.pid, {max(os.sched_getaffinity(0))})

    def open(self, count: int) -> list[dict[str, Any]]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        opened: list[dict[str, Any]] = json.loads(self.process.stdout.readline())
        return opened

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def uss(self) -> int:
        return private_bytes(self.process.pid)


@contextmanager
def server(loop: str) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as directory:
        running = Server(Path(directory), loop)
        try:
            yield running
        finally:
            assert running.process.stdin
            running.process.stdin.close()
            running.process.wait()


def private_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private"))


# -- clients ----------------------------------------------------------------------------------------------------------


def connect(opened: dict[str, Any]) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.connect(opened["env"]["OSTLER_BRIDGE_SOCKET"])
    link.sendall(f"OSTLER/1 {os.getpid()} {opened['token']}\n".encode() + opening())
    read_lines(link.fileno(), 2)
    return link


def connected(address: str) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.connect(address)
    return link


def read_lines(descriptor: int, count: int) -> bytes:
    data = b""
    while data.count(b"\n") < count:
        data += os.read(descriptor, 262144)
    return data


def round_trips(writing: int, reading: int, count: int) -> list[float]:
    frame = call_frame(1)
    spans = []
    for _ in range(count + WARM):
        start = time.perf_counter()
        os.write(writing, frame)
        read_lines(reading, 1)
        spans.append(time.perf_counter() - start)
    return spans[WARM:]


@contextmanager
def relay(opened: dict[str, Any]) -> Iterator[subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    with subprocess.Popen(opened["argv"], env=opened["env"], stdin=pipe, stdout=pipe, bufsize=0) as process:
        yield process


@contextmanager
def c_echo() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as directory:
        binary, address = f"{directory}/echo", f"{directory}/echo.sock"
        source = Path(__file__).with_name("native") / "echo.c"
        subprocess.run(["gcc", "-O2", "-o", binary, str(source)], check=True)
        with subprocess.Popen([binary, address], stdout=subprocess.PIPE) as process:
            os.sched_setaffinity(process.pid, {max(os.sched_getaffinity(0))})
            assert process.stdout
            process.stdout.readline()
            yield address
            process.kill()


# -- the figures ------------------------------------------------------------------------------------------------------


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def micro(values: list[float]) -> str:
    return f"p50 {statistics.median(values) * 1e6:7.1f} us   p99 {percentile(values, 0.99) * 1e6:7.1f} us"


def latency(loop: str, count: int = 5000) -> None:
    with server(loop) as running, c_echo() as address, socket.socket(socket.AF_UNIX) as echo:
        opened, direct = running.open(2)
        echo.connect(address)
        to_echo = {**opened, "env": {**opened["env"], "OSTLER_BRIDGE_SOCKET": address}}
        with relay(opened) as process, relay(to_echo) as relayed, connect(direct) as link:
            ways = {
                "C echo": (echo.fileno(), echo.fileno()),
                "bridge": (link.fileno(), link.fileno()),
                "relay + C echo": pipes(relayed),
                "relay + bridge": pipes(process),
            }
            read_lines(ways["relay + C echo"][1], 1)
            os.write(ways["relay + bridge"][0], opening())
            read_lines(ways["relay + bridge"][1], 2)
            spans: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(5):
                for way, (writing, reading) in ways.items():
                    spans[way] += round_trips(writing, reading, count // 5)
            close_pipes(process)
            close_pipes(relayed)
    floor = {way: statistics.median(spans["relay + C echo" if "relay" in way else "C echo"]) for way in ways}
    for way, measured in spans.items():
        print(f"{way:16} {FRAME} B  {micro(measured)}   {statistics.median(measured) / floor[way]:.2f} x C echo")
    print("                        (wanted: p50 <= 250 us through the relay, <= 3 x of a C echo in the same place)")


def pipes(process: subprocess.Popen[bytes]) -> tuple[int, int]:
    assert process.stdin
    assert process.stdout
    return process.stdin.fileno(), process.stdout.fileno()


def close_pipes(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin
    process.stdin.close()


def load(links: list[socket.socket], total: int) -> tuple[float, list[float]]:
    """Every link has one call in flight all the time. Returns the wall time and the latency of each call."""
    frame = call_frame(1)
    poll = select.epoll()
    begun: dict[int, float] = {}
    spans: list[float] = []
    start = time.perf_counter()
    for link in links:
        poll.register(link.fileno(), select.EPOLLIN)
        begun[link.fileno()] = time.perf_counter()
        os.write(link.fileno(), frame)
    while len(spans) < total:
        for descriptor, _ in poll.poll():
            os.read(descriptor, 262144)
            now = time.perf_counter()
            spans.append(now - begun[descriptor])
            begun[descriptor] = now
            os.write(descriptor, frame)
    wall = time.perf_counter() - start
    for link in links:
        read_lines(link.fileno(), 1)
    return wall, spans


def throughput(loop: str, total: int = 100_000) -> None:
    with server(loop) as running:
        links = [connect(opened) for opened in running.open(64)]
        load(links, 5000)
        cpu = running.cpu()
        wall, spans = load(links, total)
        cpu = running.cpu() - cpu
        print(
            f"64 connections          {total / wall:7,.0f} calls/s   {cpu / total * 1e6:.1f} us CPU per call"
            f" = {total / cpu:,.0f}/s of one core   {micro(spans)}   (wanted: >= 20,000/s)"
        )


def paced(links: list[socket.socket], total: int, rate: int) -> list[float]:
    """Calls at a steady rate, each on a connection of chance, whatever the ones before are doing."""
    frame, draw = call_frame(1), random.Random(1)
    poll = select.epoll()
    for link in links:
        poll.register(link.fileno(), select.EPOLLIN)
    begun: dict[int, float] = {}
    spans: list[float] = []
    due = time.perf_counter()
    while len(spans) < total:
        while time.perf_counter() >= due:
            due += 1 / rate
            descriptor = draw.choice(links).fileno()
            if descriptor not in begun:
                # From the moment of writing: epoll sleeps in whole milliseconds, and that is not the bridge's doing.
                begun[descriptor] = time.perf_counter()
                os.write(descriptor, frame)
        for descriptor, _ in poll.poll(max(0.0, due - time.perf_counter())):
            os.read(descriptor, 262144)
            spans.append(time.perf_counter() - begun.pop(descriptor))
    for descriptor in begun:
        read_lines(descriptor, 1)
    return spans


def thousand(loop: str, rate: int = 2000) -> None:
    with server(loop) as running:
        links = [connect(opened) for opened in running.open(10)]
        load(links, 2000)
        before = running.uss()
        links += [connect(opened) for opened in running.open(1000)]
        idle = (running.uss() - before) / 1000
        steady = paced(links[10:], 3 * rate, rate)
        _, flood = load(links[10:], 30_000)
        with c_echo() as address:
            control = paced([connected(address) for _ in range(1000)], 3 * rate, rate)
        print(f"1,000 bound, idle       {idle / 1024:7.1f} KB per binding   (wanted: <= 40 KB)")
        print(f"1,000 bound, {rate:,}/s    {micro(steady)}   (wanted: p99 <= 5 ms)")
        print(f"1,000 C echo, {rate:,}/s   {micro(control)}   (what the machine does to anybody just now)")
        print(f"1,000 bound, all busy   {micro(flood)}")


FLOOD = """
import socket, sys
held = []
while True:
    link = socket.socket(socket.AF_UNIX)
    link.connect(sys.argv[1])
    held.append(link)
    if len(held) == 1000:
        held.clear()
"""


def flooded(loop: str, count: int = 3000) -> None:
    """One honest client while somebody opens connections as fast as they can."""
    with server(loop) as running:
        (opened,) = running.open(1)
        with connect(opened) as link:
            calm = round_trips(link.fileno(), link.fileno(), count)
            address = opened["env"]["OSTLER_BRIDGE_SOCKET"]
            with subprocess.Popen([sys.executable, "-c", FLOOD, address], stderr=subprocess.DEVNULL) as flood:
                time.sleep(0.5)
                stormy = round_trips(link.fileno(), link.fileno(), count)
                flood.kill()
    print(f"calm / under a flood    {micro(calm)} / {micro(stormy)}   (wanted: p99 <= 5 ms)")


def start_up(loop: str, count: int = 40) -> None:
    spans, sizes, floor = [], [], []
    with server(loop) as running:
        for opened in running.open(count):
            start = time.perf_counter()
            with relay(opened) as process:
                assert process.stdin
                assert process.stdout
                os.write(process.stdin.fileno(), opening())
                read_lines(process.stdout.fileno(), 2)
                spans.append(time.perf_counter() - start)
                sizes.append(private_bytes(process.pid))
                process.stdin.close()
            start = time.perf_counter()
            subprocess.run([sys.executable, "-I", "-S", "-E", "-c", ""], check=True)
            floor.append(time.perf_counter() - start)
    size = statistics.median(sizes) / 2**20
    print(f"relay: start to tools   {micro(spans)}   USS {size:.2f} MB   (wanted: <= 10 ms, <= 4 MB)")
    print(
        f"an empty interpreter    {micro(floor)}   relay: {statistics.median(spans) / statistics.median(floor):.2f} x"
    )


def main(loop: str) -> None:
    print(f"loop: {loop}, python {sys.version.split()[0]}")
    start_up(loop)
    latency(loop)
    throughput(loop)
    thousand(loop)
    flooded(loop)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        run = uvloop.run if sys.argv[2] == "uvloop" else asyncio.run
        run(serve(sys.argv[3]))
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else "uvloop")
