"""Where the faults happen: a network and mounts of our own, so that cables can be pulled and disks filled at will.

Rules: everything goes with the process that made it. Where the system allows no namespaces we stay outside, and the
faults that need them are left out, each with its reason.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from tools.agents.offline import raise_loopback

INSIDE = "OSTLER_FAULTS_INSIDE"
WAYS = (("unshare", "-nm"), ("unshare", "-rnm"))
DISK = "512m"
DIES_WITH_PARENT = 1


def way_in() -> Sequence[str] | None:
    """The command prefix for namespaces of our own; None where they are not allowed."""
    for way in WAYS:
        if shutil.which(way[0]) and subprocess.run([*way, "true"], check=False, capture_output=True).returncode == 0:
            return way
    return None


def enter() -> bool:
    """Begin again inside, once. Whether we are inside."""
    if os.environ.get(INSIDE):
        raise_loopback()
        return True
    way = way_in()
    if way is not None:
        program = shutil.which(way[0]) or way[0]
        again = [*way, sys.executable, "-m", "tools.faults", *sys.argv[1:]]
        os.execve(program, again, {**os.environ, INSIDE: "1"})
    return False


class Cable:
    """Another machine, as far as TCP can tell: a process with a network of its own and a cable between us.

    The cable is pulled there: nothing that either side sends arrives any more, no FIN and no reset, and we still have a
    route. The process lives on, so its kernel would answer if it heard.
    """

    def __init__(self, number: int) -> None:
        """Two cables of different numbers may be laid at the same time."""
        self.here, self.there = f"10.213.{number}.1", f"10.213.{number}.2"
        self._near, self._far = f"near{number}", f"far{number}"
        code = (
            f"import sys, ctypes; ctypes.CDLL(None).prctl({DIES_WITH_PARENT}, 9); print('here', flush=True); "
            "exec(sys.stdin.readline())"
        )
        self.process = subprocess.Popen(
            ["unshare", "-n", sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        # Until it has said so it may still be in our network, where the cable would lead from us to us.
        there = self.process.stdout.readline() == "here\n"
        pid = str(self.process.pid)
        self.laid = there and all(
            run(*line)
            for line in (
                ("ip", "link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", pid),
                ("ip", "addr", "add", f"{self.here}/24", "dev", self._near),
                ("ip", "link", "set", self._near, "up"),
                ("nsenter", "-t", pid, "-n", "ip", "addr", "add", f"{self.there}/24", "dev", self._far),
                ("nsenter", "-t", pid, "-n", "ip", "link", "set", self._far, "up"),
            )
        )

    def run(self, code: str) -> str:
        """Run one line there, and read the first line it prints."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"exec({code!r})\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def pull(self) -> None:
        """Nothing passes any more."""
        run("nsenter", "-t", str(self.process.pid), "-n", "ip", "link", "set", self._far, "down")

    def end(self) -> None:
        """The other machine and the cable are gone."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        run("ip", "link", "del", self._near)


def run(*line: str) -> bool:
    """Whether a command of the system did what it was asked."""
    return shutil.which(line[0]) is not None and subprocess.run(line, check=False, capture_output=True).returncode == 0
