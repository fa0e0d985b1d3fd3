"""The agent as a process: command line, signals, stdin to its end.

Rules of this file: the process ends when stdin does, also while its threads wait. A bug in any thread ends the process
with a traceback: a client must never wait for a thread that died.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from ostler.demo import faults
from ostler.demo.agent import Agent
from ostler.demo.flags import Flags, UsageError, usage
from ostler.demo.stdio import StdoutWriter, read_lines
from ostler.demo.store import DemoStore, default_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ostler.demo.record import Recorder

STACK = 512 << 10
CRASHED = 70


def run(argv: list[str]) -> int:
    """Run the agent on this process's stdin and stdout until stdin ends."""
    if argv[:2] == ["agent", "demo"]:
        argv = argv[2:]
    if "--help" in argv or "-h" in argv:
        print(usage())
        return 0
    try:
        flags = Flags(argv)
    except UsageError as error:
        print(f"ostler agent demo: {error}\n\n{usage()}", file=sys.stderr)
        return 2
    if flags.fail_state and faults.count_start(flags.fail_state) <= flags.fail_first_starts:
        print(f"demo agent: told to fail its first {flags.fail_first_starts} starts", file=sys.stderr)
        return 1
    _set_up_process(flags)
    return _serve(flags)


def _serve(flags: Flags) -> int:
    recorder = _open_record(flags.record)
    outlet = StdoutWriter(1, recorder)
    agent = Agent(flags, outlet, DemoStore(flags.state_dir or default_folder(dict(os.environ))), recorder)
    try:
        with open(0, "rb", buffering=1 << 16, closefd=False) as source:
            for line in read_lines(source):
                agent.take(line)
                if outlet.frozen:
                    threading.Event().wait()
        if flags.ignore_eof:
            threading.Event().wait()
        agent.finish()
    except BrokenPipeError:
        agent.finish()
    if recorder is not None:
        recorder.ended("stdin ended")
    # Not sys.exit: it would wait for threads that hang by order.
    os._exit(0)


def _set_up_process(flags: Flags) -> None:
    import signal  # noqa: PLC0415 - after the flags: a usage error needs none of it

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if flags.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.stack_size(STACK)
    threading.excepthook = _end_on_crash
    time.sleep(flags.boot_delay)


def _end_on_crash(crash: threading.ExceptHookArgs) -> None:
    if isinstance(crash.exc_value, BrokenPipeError):
        # The client is gone; the main thread sees the end of stdin and cleans up.
        return
    sys.excepthook(crash.exc_type, crash.exc_value or crash.exc_type(), crash.exc_traceback)
    sys.stderr.flush()
    os._exit(CRASHED)


def _open_record(path: str | None) -> Recorder | None:
    if path is None:
        return None
    from ostler.demo.record import Recorder  # noqa: PLC0415 - tests only

    recorder = Recorder(path)
    recorder.started()
    return recorder
