"""The orders that misbehave, each like behaviour seen in a real agent.

Rules of this file: a fault does exactly what its name says. A process that outlives the agent by design ends by itself
within an hour, so that a failed test leaves no process permanently.
"""

from __future__ import annotations

import os
import sys
import threading

from ostler.demo.frames import chunk, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ostler.demo.orders import DemoOrder
    from ostler.demo.turn import DemoTurn

MIB = 1 << 20
FORK = 'trap "" TERM; echo $$; exec sleep 3600 >/dev/null 2>&1'
DAEMON = "sleep 3600 </dev/null >/dev/null 2>&1 & echo $!"
JUNK = b'this is no JSON\n\n["an","array"]\n42\n{"jsonrpc":"2.0","id":\n{"jsonrpc":"2.0","id":999999999,"result":{}}\n'


def die(_turn: DemoTurn, order: DemoOrder) -> None:
    """End the process immediately, in the middle of a turn."""
    sys.stderr.write(f"demo agent: told to die with exit code {int(order.number)}\n")
    sys.stderr.flush()
    os._exit(int(order.number))


def hang(turn: DemoTurn, order: DemoOrder) -> None:
    """Never answer, not even a cancel. `all` stops the whole process: nothing is read or written."""
    if order.text == "all":
        turn.outlet.freeze()
    threading.Event().wait()


def junk(turn: DemoTurn, _order: DemoOrder) -> None:
    """Write lines that are no frames, and an answer to a request that was never sent."""
    turn.outlet.write(JUNK)


def bigline(turn: DemoTurn, order: DemoOrder) -> None:
    """Write one valid frame of the given size. Not remembered: a load would send it again."""
    turn.begin_answer()
    turn.outlet.write(encode(chunk(turn.session, "agent_message_chunk", "x" * int(order.number * MIB))))


def badutf8(turn: DemoTurn, _order: DemoOrder) -> None:
    """Write a frame whose text is not valid UTF-8."""
    line = encode(chunk(turn.session, "agent_message_chunk", "bad \x00"))
    turn.outlet.write(line.replace(b"\\u0000", b"\xff\xfe\xc3\x28"))


def stderr(_turn: DemoTurn, order: DemoOrder) -> None:
    """Flood stderr with the given size."""
    line = b"demo agent: flood " + b"." * 109 + b"\n"
    left = int(order.number * MIB)
    while left > 0:
        left -= os.write(2, line * min(512, -(-left // len(line))))


def fork(_turn: DemoTurn, _order: DemoOrder) -> str:
    """Leave a grandchild that ignores SIGTERM. It stays in the agent's process group."""
    return f"fork {_shell(FORK, new_session=False)}"


def daemon(_turn: DemoTurn, _order: DemoOrder) -> str:
    """Leave a grandchild in a session of its own, orphaned by a double fork."""
    return f"daemon {_shell(DAEMON, new_session=True)}"


def late(turn: DemoTurn, _order: DemoOrder) -> None:
    """Announce it and wait for the cancel; the agent then sends updates after its answer."""
    turn.late = True
    turn.say("waiting")
    turn.wait("never")


def say_late_chunks(turn: DemoTurn) -> None:
    """Send the updates that `!late` announced, after the turn is over."""
    for index in range(3):
        turn.send(chunk(turn.session, "agent_message_chunk", f"late{index} "))


def count_start(path: str) -> int:
    """Count this start in a file and return how many there were. Simultaneous starts are counted separately."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, b".")
        return os.lseek(fd, 0, os.SEEK_CUR)
    finally:
        os.close(fd)


def _shell(script: str, *, new_session: bool) -> int:
    """Start a shell script that prints a pid when it is ready, and return that pid."""
    import subprocess  # noqa: PLC0415 - costs as much as the interpreter; only faults and tool servers need it

    started = subprocess.Popen(
        ["/bin/sh", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=new_session,
    )
    assert started.stdout is not None  # noqa: S101 - it was asked for
    pid = int(started.stdout.readline())
    started.stdout.close()
    if new_session:
        started.wait()
    return pid


VERBS: dict[str, Callable[[DemoTurn, DemoOrder], str | None]] = {
    "die": die,
    "hang": hang,
    "junk": junk,
    "bigline": bigline,
    "badutf8": badutf8,
    "stderr": stderr,
    "fork": fork,
    "daemon": daemon,
    "late": late,
}
