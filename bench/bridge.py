"""What a tool call costs: through the bridge, through the relay, and through a C echo in the same place.

The bridge runs in a process of its own, pinned to one core; the load runs on another. Every ratio is measured in one
run, against a C echo on the same kind of socket with the same client. Clients block and do as little as possible. The
bridge runs on uvloop, as in the gateway.
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

from bench.measure import Report
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
ROUNDS = 5
SESSIONS = (1, 20, 100, 500, 2000)


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
    def __init__(self, directory: Path) -> None:
        command = [sys.executable, "-m", "bench.bridge", str(directory)]
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
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as directory:
        running = Server(Path(directory))
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


def micro(values: list[float]) -> list[float]:
    return [value * 1e6 for value in values]


def latency(report: Report, count: int) -> None:
    """One call after another, by each way in turn."""
    with server() as running, c_echo() as address, socket.socket(socket.AF_UNIX) as echo:
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
            rounds: dict[str, list[float]] = {way: [] for way in ways}
            for turn in range(ROUNDS):
                for way in list(ways) if turn % 2 else reversed(ways):
                    fresh = micro(round_trips(*ways[way], count // ROUNDS))
                    spans[way] += fresh
                    rounds[way].append(statistics.median(fresh))
            close_pipes(process)
            close_pipes(relayed)
    for way, measured in spans.items():
        report.row(f"round trip of {FRAME} B, {way}", "us", measured)
    title = "Round trip of a tool call"
    straight = {way: rounds[way] for way in ("bridge", "C echo")}
    report.compare(f"{title}, on the socket", "us", straight, against="C echo")
    relayed_ways = {way: rounds[way] for way in ("relay + bridge", "relay + C echo")}
    report.compare(f"{title}, through the relay", "us", relayed_ways, against="relay + C echo")
    p50 = {way: statistics.median(measured) for way, measured in spans.items()}
    report.claim("round trip through the relay, p50, us", p50["relay + bridge"], at_most=250)
    report.claim("round trip on the socket / C echo", p50["bridge"] / p50["C echo"], at_most=3)
    behind_a_relay = p50["relay + bridge"] / p50["relay + C echo"]
    report.claim("round trip through the relay / the same to a C echo", behind_a_relay, at_most=3)


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


def throughput(report: Report, total: int) -> None:
    """Sixty-four connections, each with one call in flight all the time."""
    with server() as running:
        links = [connect(opened) for opened in running.open(64)]
        load(links, 5000)
        cpu = running.cpu()
        wall, spans = load(links, total)
        cpu = running.cpu() - cpu
        report.row("64 connections, a call", "us", micro(spans))
        report.row("64 connections, CPU of a call", "us", [cpu / total * 1e6])
        report.claim("64 connections, calls/s", total / wall, at_least=20_000)


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


def thousand(report: Report, rate: int = 2000) -> None:
    """A thousand sessions with tools, idle, at a steady pace and all at once."""
    with server() as running:
        links = [connect(opened) for opened in running.open(10)]
        load(links, 2000)
        before = running.uss()
        links += [connect(opened) for opened in running.open(1000)]
        idle = (running.uss() - before) / 1000
        steady = paced(links[10:], 3 * rate, rate)
        _, flood = load(links[10:], 30_000)
        with c_echo() as address:
            control = paced([connected(address) for _ in range(1000)], 3 * rate, rate)
        report.row(f"1,000 bound, {rate:,} calls a second", "us", micro(steady))
        report.row(f"1,000 C echo, {rate:,} calls a second", "us", micro(control))
        report.row("1,000 bound, all busy", "us", micro(flood))
        report.claim("1,000 bound, KB per binding", idle / 1024, at_most=40)
        report.claim(f"1,000 bound, {rate:,} calls a second, p99, ms", percentile(steady, 99) * 1e3, at_most=5)


def growth(report: Report, count: int) -> None:
    """One call after another of one session, while so many others are bound and idle."""
    with server() as running:
        links = [connect(opened) for opened in running.open(1)]
        for sessions in SESSIONS:
            links += [connect(opened) for opened in running.open(sessions - len(links))]
            spans = round_trips(links[0].fileno(), links[0].fileno(), count)
            report.row(f"round trip of {FRAME} B, {sessions:,} bound", "us", micro(spans))
        for link in links:
            link.close()


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


def flooded(report: Report, count: int) -> None:
    """One honest client while somebody opens connections as fast as they can."""
    with server() as running:
        (opened,) = running.open(1)
        with connect(opened) as link:
            calm = round_trips(link.fileno(), link.fileno(), count)
            address = opened["env"]["OSTLER_BRIDGE_SOCKET"]
            with subprocess.Popen([sys.executable, "-c", FLOOD, address], stderr=subprocess.DEVNULL) as flood:
                time.sleep(0.5)
                stormy = round_trips(link.fileno(), link.fileno(), count)
                flood.kill()
    report.row("one client, calm", "us", micro(calm))
    report.row("one client, under a flood of connections", "us", micro(stormy))
    report.claim("under a flood of connections, p99, ms", percentile(stormy, 99) * 1e3, at_most=5)


def start_up(report: Report, count: int) -> None:
    """From the start of a relay to its tools, beside a bare interpreter."""
    spans, sizes, floor = [], [], []
    with server() as running:
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
    report.row("relay, start to tools", "ms", [span * 1e3 for span in spans])
    report.row("an empty interpreter", "ms", [span * 1e3 for span in floor])
    report.row("relay, memory of its own", "MB", [size / 2**20 for size in sizes])
    report.claim("relay: start to tools, ms", statistics.median(spans) * 1e3, at_most=10)
    report.claim("relay: MB of its own", statistics.median(sizes) / 2**20, at_most=4)


def percentile(values: list[float], share: int) -> float:
    """The value that so many percent do not exceed."""
    return statistics.quantiles(values, n=100)[share - 1]


def run(quick: bool) -> Report:
    """The figures of this file."""
    report = Report("the bridge: what a tool call costs")
    start_up(report, 10 if quick else 40)
    latency(report, 1000 if quick else 5000)
    throughput(report, 20_000 if quick else 100_000)
    thousand(report)
    growth(report, 300 if quick else 2000)
    flooded(report, 1000 if quick else 3000)
    return report


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
