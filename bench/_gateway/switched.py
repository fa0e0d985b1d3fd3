"""A gateway whose counting can be switched while it runs: `python -m bench._gateway.switched FOLDER`.

Rules: one process counts and does not count by turns. Two gateways beside each other differ by ten percent for reasons
of their own (where their memory lies, which core they are on), and what is to be seen is less than one. A line `on` or
`off` on stdin switches, and is answered by the processor time so far, in nanoseconds, of all threads.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import uvloop
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Receive, Scope, Send

from bench._gateway.process import LIMITS, PLAIN
from ostler.gateway.config.load import load
from ostler.gateway.config.settings import Settings
from ostler.gateway.model.model_names import Models
from ostler.gateway.ops.gauges.gauges import Gauges
from ostler.gateway.ops.gauges.observers import StoreGauges, TurnGauges
from ostler.gateway.server.app import open_gateway
from ostler.gateway.server.listener import address_of, listen_tcp
from ostler.gateway.server.serving import Server
from ostler.gateway.turns.reports import TurnReport


@dataclass
class Switch:
    """One for all instruments."""

    on: bool = True


@dataclass(frozen=True)
class SwitchedTurns(TurnGauges):
    """Counts turns while it is on."""

    switch: Switch

    def turn_ended(self, report: TurnReport) -> None:
        if self.switch.on:
            super().turn_ended(report)


@dataclass(frozen=True)
class SwitchedStore(StoreGauges):
    """Counts writes while it is on."""

    switch: Switch

    def stored(self, waits: Sequence[float]) -> None:
        if self.switch.on:
            super().stored(waits)


@dataclass(frozen=True)
class SwitchedGauges(Gauges):
    """What a turn of a session with a seat touches can be switched off; the rest has no part in such turns."""

    switch: Switch

    def around(self, app: ASGIApp) -> ASGIApp:
        """Both applications are there; a request takes one."""
        counted = super().around(app)

        async def chosen(scope: Scope, receive: Receive, send: Send) -> None:
            await (counted if self.switch.on else app)(scope, receive, send)

        return chosen


def switched(switch: Switch) -> Callable[[CollectorRegistry, Settings, Models], Gauges]:
    """Makes the gauges of a gateway."""

    def make(registry: CollectorRegistry, settings: Settings, models: Models) -> Gauges:
        made = Gauges.open(registry, settings, models)
        return SwitchedGauges(
            made.instruments,
            made.pool,
            SwitchedStore(made.instruments.store, switch),
            SwitchedTurns(made.instruments.turns, made.instruments.pool, switch),
            made.memory,
            switch,
        )

    return make


async def serve(folder: Path) -> None:
    """Until stdin ends."""
    switch, loop = Switch(), asyncio.get_running_loop()
    over = asyncio.Event()
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), **LIMITS, **PLAIN}
    loaded = load(environ, data_dir=str(folder / "data"))
    listener = listen_tcp("127.0.0.1", 0, patience=60)

    def heard() -> None:
        line = sys.stdin.readline().strip()
        if not line:
            loop.remove_reader(0)
            over.set()
            return
        switch.on = line == "on"
        print(time.process_time_ns(), flush=True)

    async with open_gateway(loaded, environ, gauges=switched(switch)) as gateway:
        server = Server.of(gateway.app)
        running = asyncio.create_task(server.serve(sockets=[listener]))
        print(address_of(listener).rpartition(":")[2], flush=True)
        loop.add_reader(0, heard)
        await over.wait()
        server.should_exit = True
        await running


@dataclass(frozen=True)
class Switchable:
    """The other end."""

    port: int
    said: IO[str]
    heard: IO[str]

    def count(self, on: bool) -> float:
        """Switch; microseconds of processor so far."""
        print("on" if on else "off", file=self.said, flush=True)
        return int(self.heard.readline()) / 1e3


@contextmanager
def switchable(folder: Path) -> Iterator[Switchable]:
    """One that runs."""
    line = [sys.executable, "-m", "bench._gateway.switched", str(folder)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Switchable(int(process.stdout.readline()), process.stdin, process.stdout)
        process.stdin.close()


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1])))
