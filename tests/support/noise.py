"""Runs a program and makes noise on its pipes: `python noise.py PROGRAM...`. Run by path.

Every line that the program says has one before it that is no message of its, each kind in turn; and before its second
line `FLOOD` bytes are written on stderr.
"""

import itertools
import os
import subprocess
import sys
import threading
from typing import IO

NOISE = (
    b"npm warn deprecated: this line is for people\n",
    b'\xff\xfe{"jsonrpc":"2.0"}\n',
    b"\n",
    b"[]\n",
    b"42\n",
    b'{"jsonrpc":"2.0","id":987654321,"result":{}}\n',
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"nobody"\n',
)
FLOOD = 4 << 20


def copy(source: IO[bytes], target: IO[bytes]) -> None:
    """Line by line, unchanged."""
    for line in source:
        target.write(line)
        target.flush()
    target.close()


def main() -> int:
    # Its stderr is not ours: Node makes the pipes it is given non-blocking, and would make ours so too.
    pipe = subprocess.PIPE
    child = subprocess.Popen(sys.argv[1:], stdin=pipe, stdout=pipe, stderr=pipe)
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    for ends in ((sys.stdin.buffer, child.stdin), (child.stderr, sys.stderr.buffer)):
        threading.Thread(target=copy, args=ends, daemon=True).start()
    for number, (noise, line) in enumerate(zip(itertools.cycle(NOISE), child.stdout, strict=False)):
        if number == 1:
            sys.stderr.buffer.write(b"noise " * (FLOOD // 6) + b"\n")
            sys.stderr.buffer.flush()
        sys.stdout.buffer.write(noise + line)
        sys.stdout.buffer.flush()
    return child.wait()


if __name__ == "__main__":
    # Not `sys.exit`: a thread that still reads our stdin holds a lock that the end of the interpreter wants.
    os._exit(main())
