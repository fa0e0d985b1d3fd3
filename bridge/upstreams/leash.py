"""Runs one tool server and ends it with all its descendants: `python -I -S -E leash.py FD PROGRAM ARGUMENT...`

Standard library only, nothing of ostler. FD is the reading end of a pipe whose other end only the gateway holds. When
it closes, because the gateway closes it or is dead (even by SIGKILL: the kernel closes it), this process sends SIGTERM
to the server's process group, and SIGKILL after `GRACE` seconds. So a server can be stopped and cannot be orphaned. The
server inherits stdin, stdout and stderr; this process keeps no copy of them, so that their ends reach the other side.
The server's zombie is reaped last, because until then no other process can get its pid.
"""

import contextlib
import os
import select
import signal
import sys

GRACE = 2.0


def wait_for(*descriptors: int, seconds: float | None = None) -> None:
    """Wait until one of them is readable or closed. Not `select`: FD may be above its limit of 1,023."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    poll.poll(None if seconds is None else seconds * 1000)


def main(argv: list[str]) -> int:
    control = int(argv[0])
    os.set_inheritable(control, False)
    try:
        server = os.posix_spawnp(argv[1], argv[1:], os.environ, setpgroup=0)
    except OSError as error:
        os.write(2, f"{argv[1]}: {error.strerror}\n".encode())
        return 127
    quiet = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(quiet, standard)
    watched = os.pidfd_open(server)
    wait_for(control, watched)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server, signal.SIGTERM)
    wait_for(watched, seconds=GRACE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server, signal.SIGKILL)
    _, status = os.waitpid(server, 0)
    return os.waitstatus_to_exitcode(status) & 0xFF


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
