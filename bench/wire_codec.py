"""What one text update costs on its way from bytes to a consumer, and what a 20 MiB line costs its neighbours.

- "framing + decode": bytes to `Notification`. "to an event": and through the codec. "consumed": and through session,
  turn and backlog into an `async for`, with the consumer on the same loop and the bytes arriving in pipe-sized
  portions.
- The delay is measured on a live process: one session's updates carry the moment they were said, another session says
  20 MiB on one line of the same pipe. What counts is the longest way of an update beyond the longest without the big
  line.
"""

import asyncio
import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

from bench.measure import Report, cpu_seconds, interleave
from bench.wire import by_peer, portions, updates
from ostler.pool.agent.codec import Codec
from ostler.pool.agent.codecs.acp import AcpCodec
from ostler.pool.agent.connection import AgentConnection, Pending
from ostler.pool.agent.per_home import PerHome
from ostler.pool.agent.session import AgentSession
from ostler.pool.agent.transport import Transport
from ostler.pool.agent.turn import AgentTurn
from ostler.pool.events import Finished, StopReason, Text
from ostler.pool.keys import TransportKey
from ostler.pool.launch.builder import launch
from ostler.pool.launch.settings import ProviderSettings
from ostler.pool.order import SeatOrder
from ostler.pool.permission import allow
from ostler.pool.prompt import TextPart
from ostler.pool.providers.acp import PROVIDER as ACP
from ostler.pool.providers.demo import PROVIDER as DEMO
from ostler.process import ProcessSupervisor
from ostler.wire.rpc import Notification, Peer

SESSION = "6f1c0a52-6b1e-4c55-9e39-0f5c5a1f9c11"
COUNT = 50_000
BIG = 20
KEY = TransportKey("demo", "demo", "/tmp")


def to_events(chunks: list[bytes]) -> int:
    """Framing, decoding, codec."""
    peer: Peer[None] = Peer()
    codec: Codec = AcpCodec()
    heard = 0
    for chunk in chunks:
        for message in peer.receive(chunk):
            if type(message) is Notification and codec.session_update(message.method, message.params) is not None:
                heard += 1
    return heard


class Unwritten(AgentConnection):
    """A connection whose words go nowhere: the way in is what is measured."""

    def call(self, _call: object, _pending: Pending) -> int:
        return 1


class Still(Transport):
    """A transport without a process."""

    def __init__(self) -> None:
        super().__init__(launch(DEMO, ProviderSettings(), KEY, os.environ), per_home=PerHome())
        self.connection = Unwritten(self.launch, self, versioned=True)


async def consumed(chunks: list[bytes]) -> int:
    """The whole way, one portion for each turn of the loop, as a pipe delivers them."""
    transport = Still()
    session = AgentSession(transport, SESSION, SeatOrder("/tmp", allow))
    transport.enter(session)
    turn = await session.prompt([TextPart("x")])

    async def feed() -> None:
        for chunk in chunks:
            transport.connection.stdout_received(chunk)
            await asyncio.sleep(0)
        session.receive(Finished(StopReason.DONE))

    feeding = asyncio.ensure_future(feed())
    heard = 0
    async for event in turn:
        if type(event) is Text:
            heard += 1
    await feeding
    return heard


def per_update(work: Callable[[], object], count: int) -> float:
    """Microseconds of processor time."""
    gc.collect()
    return cpu_seconds(work) / count * 1e6


AGENT = r"""
import json, sys, threading, time
out, lock = sys.stdout.buffer, threading.Lock()
def line(**frame):
    return json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n"
def text(session, words):
    content = {"type": "text", "text": words}
    params = {"sessionId": session, "update": {"sessionUpdate": "agent_message_chunk", "content": content}}
    return line(method="session/update", params=params)
def say(data):
    with lock:
        out.write(data); out.flush()
BIG = text("s2", "x" * (int(sys.argv[1]) << 20))
def tick(frame):
    for _ in range(400):
        say(text("s1", repr(time.perf_counter())))
        time.sleep(0.002)
    say(line(id=frame["id"], result={"stopReason": "end_turn"}))
opened = 0
for row in sys.stdin:
    frame = json.loads(row)
    if frame["method"] == "initialize":
        say(line(id=frame["id"], result={"protocolVersion": 1}))
    elif frame["method"] == "session/new":
        opened += 1
        say(line(id=frame["id"], result={"sessionId": f"s{opened}"}))
    elif frame["params"]["sessionId"] == "s1":
        threading.Thread(target=tick, args=(frame,)).start()
    else:
        say(BIG)
        say(line(id=frame["id"], result={"stopReason": "end_turn"}))
"""
"""Its big line is ready before it is asked for: what is measured is the way, not the agent."""


async def delays(beside: int) -> float:
    """The longest way of one session's update, in ms, while another one says `beside` MiB on one line (0: nothing)."""
    with tempfile.TemporaryDirectory() as folder:
        supervisor = await ProcessSupervisor.open(Path(folder) / "run", "bench")
        try:
            settings = ProviderSettings(command=(sys.executable, "-c", AGENT, str(beside or 1)), home=folder)
            plan = launch(ACP, settings, TransportKey("acp", "m", folder), os.environ)
            transport = await Transport.start(plan, supervisor=supervisor, per_home=PerHome())
            longest = await _longest_delay(transport, beside)
            await transport.close()
            return longest
        finally:
            await supervisor.aclose()


async def _longest_delay(transport: Transport, beside: int) -> float:
    order = SeatOrder("/tmp", allow)
    ticking, loud = await transport.open(order), await transport.open(order)
    turn = await ticking.prompt([TextPart("tick")])
    noise: AgentTurn | None = None
    longest, heard = 0.0, 0
    async for event in turn:
        if type(event) is Text:
            longest = max(longest, time.perf_counter() - float(event.text))
            heard += 1
        if heard == 100 and beside and noise is None:
            noise = await loud.prompt([TextPart("shout")])
    if noise is not None:
        await noise.ended()
    return longest * 1000


def big_line() -> list[bytes]:
    """One update of `BIG` MiB as a pipe delivers it."""
    text = b"x" * (BIG << 20)
    update = b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"' + text + b'"}}'
    frame = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":' + update + b"}}\n"
    return list(portions(frame))


def swallow(chunks: list[bytes]) -> float:
    """Milliseconds of processor time from its first byte to its event."""
    return cpu_seconds(lambda: to_events(chunks)) * 1000


def run(quick: bool) -> Report:
    """The figures of this file."""
    count, rounds = (5_000, 3) if quick else (COUNT, 7)
    chunks = list(portions(updates(count)))
    report = Report("a text update from bytes to its consumer, and a 20 MiB line beside it")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        cases = {
            "framing + decode": lambda: per_update(lambda: by_peer(chunks), count),
            "to an event": lambda: per_update(lambda: to_events(chunks), count),
            "consumed": lambda: per_update(lambda: runner.run(consumed(chunks)), count),
        }
        samples = interleave(cases, rounds=rounds)
        rows = {name: report.row(name, "us", found) for name, found in samples.items()}
        ways = {
            "longest way, alone": lambda: runner.run(delays(0)),
            f"longest way beside {BIG} MiB": lambda: runner.run(delays(BIG)),
        }
        gaps = list(interleave(ways, rounds=2 if quick else 5, warmup=0).items())
    report.claim("framing + decode per update, us", rows["framing + decode"].median, at_most=2.0)
    report.claim("to a consumed event, us", rows["consumed"].median, at_most=6.0)
    alone, beside = (report.row(name, "ms", found) for name, found in gaps)
    pairs = zip(alone.samples, beside.samples, strict=True)
    delay = report.row("delay", "ms", [max(0.0, with_it - without) for without, with_it in pairs])
    line = big_line()
    work = report.row(f"our own work on {BIG} MiB", "ms", [swallow(line) for _ in range(rounds)])
    report.claim(f"our own work on a {BIG} MiB line, ms", work.median, at_most=50.0)
    # The pipe is shared with the rest of the machine: only the calmest round says what the way itself costs.
    report.claim(f"delay of another session by a {BIG} MiB line, calmest round, ms", min(delay.samples), at_most=50.0)
    return report
