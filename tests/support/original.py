"""The process that the copies of `ostler` are made from: it has imported everything, and waits.

Run as `python -m tests.support.original FD`. Each message on that socket is one `Order` with the three descriptors that
the command is to have. The answer is its pid, with a descriptor of the process and a pipe that will tell its exit code.

Rules: one thread, no loop, no handler of signals, nothing open but that socket: a copy must begin as a fresh start goes
on after its imports. It ends when the other end of the socket is closed.
"""

import fcntl
import importlib
import io
import json
import os
import pkgutil
import select
import socket
import sys
import termios
import time
from contextlib import suppress
from dataclasses import dataclass

from ostler import gateway
from ostler.gateway.__main__ import main
from ostler.gateway.server.importing import importing
from ostler.pool import providers

MOST = 131_072
"""Bytes of an order."""


@dataclass(frozen=True)
class Order:
    """What is to be run, and where. `in_terminal`: in a session of its own, whose terminal is its standard input."""

    words: list[str]
    cwd: str
    environ: dict[str, str]
    in_terminal: bool


def import_all() -> None:
    """As each command does with what it needs."""
    with importing():
        for late in ("uvloop", "uvicorn.lifespan.off", "uvicorn.protocols.http.httptools_impl"):
            importlib.import_module(late)
        for module in pkgutil.walk_packages(gateway.__path__, "ostler.gateway."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
        providers.load()


def become(order: Order, descriptors: list[int]) -> int:
    """Run the command in this copy; its exit code."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    for descriptor in descriptors:
        os.close(descriptor)
    if order.in_terminal:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(order.cwd)
    os.environ.clear()
    os.environ.update(order.environ)
    time.tzset()
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - three streams for a whole life
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as above
    unbuffered = open(2, "wb", closefd=False)  # noqa: SIM115 - as above
    sys.stderr = io.TextIOWrapper(unbuffered, encoding="utf-8", errors="backslashreplace", line_buffering=True)
    sys.argv = ["ostler", *order.words]
    return main(order.words)


def copy_without_end(asked: socket.socket) -> int | None:
    """Make what is asked for, and tell how each ended. In a copy: its exit code. In the original: None, at the end."""
    poll = select.poll()
    poll.register(asked, select.POLLIN)
    living: dict[int, tuple[int, int]] = {}
    while True:
        for ready, _ in poll.poll():
            if ready != asked.fileno():
                poll.unregister(ready)
                bury(ready, *living.pop(ready))
                continue
            said, descriptors, _, _ = socket.recv_fds(asked, MOST, 3)
            if not said:
                return None
            hear, tell = os.pipe()
            if (pid := os.fork()) == 0:
                for descriptor in [hear, tell, asked.detach(), *living, *(end for _, end in living.values())]:
                    os.close(descriptor)
                return become(Order(**json.loads(said)), descriptors)
            process = os.pidfd_open(pid)
            socket.send_fds(asked, [str(pid).encode()], [process, hear])
            for descriptor in [hear, *descriptors]:
                os.close(descriptor)
            living[process] = pid, tell
            poll.register(process, select.POLLIN)


def bury(process: int, pid: int, tell: int) -> None:
    """It has ended: say how. Nobody may want to know."""
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):
        os.write(tell, str(os.waitstatus_to_exitcode(status)).encode())
    os.close(tell)
    os.close(process)


if __name__ == "__main__":
    import_all()
    sys.exit(copy_without_end(socket.socket(fileno=int(sys.argv[1]))))
