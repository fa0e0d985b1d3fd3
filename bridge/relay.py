"""The relay, an agent's tool server: one hello line, then a pipe of whole frames in both directions.

Rules: an agent launches `relay_start.py`. Only builtin and tiny modules are imported (no `os`, no `socket`, no `json`:
they cost more than everything else here), so that it starts hardly slower than the bare interpreter. It exits when its
stdin ends, immediately and in any state, or when the bridge reports that its session is over (an agent that cannot end
a session never closes that stdin); and for no other reason, because an agent never restarts a tool server. Lost
connections are reopened with backoff. Only whole frames cross: a frame that was written in part when the socket died
cannot have been acted on and is sent again whole; a frame that arrived in part is dropped. Nothing but frames is
written to stdout, nothing at all to stderr. When the bridge has been away for long, requests are answered with an
error, so that no model waits without limit. The token is secret: it is erased from the environment before anything
else, and the memory is closed to other processes of the same user.
"""

import _socket
import posix
import select
import sys
import time

STDIN, STDOUT = 0, 1
CHUNK = 262144
HELD_LIMIT = 1 << 20
FIRST_DELAY, LAST_DELAY = 0.02, 1.0
PATIENCE = 10.0
NOT_DUMPABLE = 4  # PR_SET_DUMPABLE, to be set to 0
# Cannot be mistaken for a frame: a frame begins with a brace.
OVER = b"OSTLER/1 over\n"
# POLLRDHUP alone reports a half-closed socket as stdin; on other systems the next read does.
HALF_CLOSED = select.POLLRDHUP if sys.platform == "linux" else 0
GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL | HALF_CLOSED


class Relay:
    """Copies frames between an agent on stdin and stdout and the bridge on a unix socket, in one poll loop."""

    def __init__(self, address: bytes, token: bytes) -> None:
        self.address = address
        self.token = token
        self.poll = select.poll()
        self.interest: dict[int, int] = {}
        self.socket: _socket.socket | None = None
        # Frames for the bridge. It begins at the start of a frame; `sent` bytes of it are written.
        self.upstream = bytearray()
        self.sent = 0
        # Whole frames for the agent, and the start of one that is still arriving.
        self.downstream = bytearray()
        self.arriving = bytearray()
        self.delay = FIRST_DELAY
        self.next_try = 0.0
        self.lost_at = time.monotonic()
        self.over = False

    def run(self) -> None:
        posix.set_blocking(STDIN, False)
        posix.set_blocking(STDOUT, False)
        self.connect()
        while self.step():
            pass

    def step(self) -> bool:
        """One round of the poll loop. False when stdin has ended or the session is over."""
        self.choose()
        for descriptor, event in self.poll.poll(self.patience()):
            if descriptor == STDIN:
                if not (self.read_stdin() if event & select.POLLIN else not event & GONE):
                    return False
            elif descriptor == STDOUT:
                self.write_stdout()
            else:
                self.serve_socket(event)
        if self.socket is None:
            self.come_back()
        return not self.over

    def choose(self) -> None:
        """Poll only descriptors that can make progress: nothing is read that could not be passed on."""
        self.watch(STDIN, 0 if self.full() else select.POLLIN)
        if self.downstream:
            self.watch(STDOUT, select.POLLOUT)
        else:
            self.unwatch(STDOUT)
        if self.socket is not None:
            reading = 0 if len(self.downstream) > HELD_LIMIT else select.POLLIN
            writing = select.POLLOUT if self.sent < len(self.upstream) else 0
            self.watch(self.socket.fileno(), reading | writing)

    def serve_socket(self, event: int) -> None:
        if event & ~select.POLLOUT:
            self.read_socket()
        if event & select.POLLOUT:
            self.write_socket()

    def full(self) -> bool:
        """Whether enough waits for the bridge. A frame that has begun is read to its end, or it is never answered."""
        waiting = len(self.upstream) - self.sent > HELD_LIMIT
        return waiting and (self.socket is not None or b"\n" in self.upstream)

    def patience(self) -> float | None:
        """How long to sleep, in milliseconds; None: until an event."""
        if self.socket is not None:
            return None
        return max(0.0, self.next_try - time.monotonic()) * 1000 + 1

    def watch(self, descriptor: int, events: int) -> None:
        events |= HALF_CLOSED if descriptor == STDIN and not events else 0
        if self.interest.get(descriptor) != events:
            self.interest[descriptor] = events
            self.poll.register(descriptor, events)

    def unwatch(self, descriptor: int) -> None:
        if self.interest.pop(descriptor, None) is not None:
            self.poll.unregister(descriptor)

    def read_stdin(self) -> bool:
        try:
            data = posix.read(STDIN, CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.upstream += data
        if self.socket is not None:
            self.write_socket()
        return bool(data)

    def write_stdout(self) -> None:
        try:
            written = posix.write(STDOUT, self.downstream)
        except BlockingIOError:
            return
        except OSError:
            # The agent no longer reads. Its end of stdin will follow; until then drop the output.
            written = len(self.downstream)
        del self.downstream[:written]

    def connect(self) -> None:
        link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        link.setblocking(False)
        try:
            link.connect(self.address)
            link.send(b"OSTLER/1 %d %b\n" % (posix.getpid(), self.token))
        except BlockingIOError:
            # The bridge is alive and its queue is full. The next free place goes to the client that asks at the right
            # moment, so with growing delays this relay would stay away for as long as a flood of others lasts.
            link.close()
            self.next_try = time.monotonic() + FIRST_DELAY
            return
        except OSError:
            link.close()
            self.next_try = time.monotonic() + self.delay
            self.delay = min(self.delay * 2, LAST_DELAY)
            return
        self.socket = link
        self.write_socket()

    def come_back(self) -> None:
        now = time.monotonic()
        if now - self.lost_at > PATIENCE:
            self.answer_unavailable()
        if now >= self.next_try:
            self.connect()

    def write_socket(self) -> None:
        if self.socket is None or self.sent >= len(self.upstream):
            return
        try:
            count = self.socket.send(memoryview(self.upstream)[self.sent :] if self.sent else self.upstream)
        except BlockingIOError:
            return
        except OSError:
            # The bridge may have written before it closed: read that first.
            self.read_socket()
            return
        before, self.sent = self.sent, self.sent + count
        whole = self.upstream.rfind(b"\n", before, self.sent) + 1
        if whole:
            del self.upstream[:whole]
            self.sent -= whole

    def read_socket(self) -> None:
        if self.socket is None:
            return
        try:
            data = self.socket.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.lose()
            return
        self.delay = FIRST_DELAY
        whole = data.rfind(b"\n") + 1
        if whole:
            received = bytes(self.arriving) + data[:whole]
            self.over = received.startswith(OVER) or b"\n" + OVER in received
            self.downstream += received.partition(OVER)[0] if self.over else received
            self.arriving = bytearray(data[whole:])
            self.write_stdout()
        else:
            self.arriving += data

    def lose(self) -> None:
        if self.socket is None:
            return
        self.unwatch(self.socket.fileno())
        self.socket.close()
        self.socket = None
        self.sent = 0
        self.arriving.clear()
        self.lost_at = time.monotonic()
        self.next_try = self.lost_at + self.delay
        self.delay = min(self.delay * 2, LAST_DELAY)

    def answer_unavailable(self) -> None:
        """Answer waiting requests with an error: the bridge has been away for long. Only here are messages parsed."""
        whole = self.upstream.rfind(b"\n") + 1
        if not whole:
            return
        import json  # noqa: PLC0415 - several milliseconds that a relay in good health never pays

        for frame in bytes(self.upstream[:whole]).split(b"\n"):
            try:
                message = json.loads(frame)
            except (ValueError, RecursionError):
                continue  # no request that could be answered
            if isinstance(message, dict) and "method" in message and "id" in message:
                error = {"code": -32014, "message": "the tool bridge is away; try again later"}
                reply = json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error})
                self.downstream += reply.encode() + b"\n"
        del self.upstream[:whole]
        self.write_stdout()


def erase(secret: bytes) -> None:
    """Overwrite the token in the environment that /proc shows; the caller has a copy. Best effort."""
    if not secret:
        return
    try:
        stat = posix.open("/proc/self/stat", posix.O_RDONLY)
        # Fields 50 and 51, counted after the command, which may contain any characters: the bounds of the environment.
        start, end = map(int, posix.read(stat, 4096).rpartition(b")")[2].split()[47:49])
        memory = posix.open("/proc/self/mem", posix.O_RDWR)
        place = posix.pread(memory, end - start, start).find(secret)
        if place >= 0:
            posix.pwrite(memory, b"0" * len(secret), start + place)
        posix.close(stat)
        posix.close(memory)
    except (OSError, ValueError):
        return  # no /proc here, or no access to it


def close_memory() -> None:
    """Forbid other processes of the same user to read this memory or take descriptors (root still may). Best effort.

    Uses `_ctypes`, the module below `ctypes`: loading all of `ctypes` takes half as long as starting the interpreter.
    """
    try:
        import _ctypes  # noqa: PLC0415 - only Linux needs it, and not every interpreter has it

        itself = _ctypes.dlopen(None, 0)  # type: ignore[arg-type] # None is allowed: what is loaded already
        _ctypes.call_function(_ctypes.dlsym(itself, "prctl"), (NOT_DUMPABLE, 0, 0, 0, 0))
    except (ImportError, AttributeError, OSError):
        return


def main() -> None:
    environment = posix.environ
    address = environment.get(b"OSTLER_BRIDGE_SOCKET", b"")
    token = environment.get(b"OSTLER_ACP_SESSION_BINDING", b"")
    # In this order: after `close_memory` this process cannot open its own /proc files either.
    erase(token)
    if sys.platform == "linux":
        close_memory()
    Relay(address, token).run()
