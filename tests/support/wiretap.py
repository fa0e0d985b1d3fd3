"""Runs a program and writes down every line of its stdin and stdout: `python wiretap.py FILE PROGRAM...`. Run by path.

One JSON line for each line: {"to": text} for what the agent was sent, {"from": text} for what it said.
"""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

LOCK = threading.Lock()


def copy(source: IO[bytes], target: IO[bytes], direction: str, log: IO[bytes]) -> None:
    for line in source:
        with LOCK:
            log.write(json.dumps({direction: line.decode(errors="replace")}).encode() + b"\n")
            log.flush()
        target.write(line)
        target.flush()
    target.close()


def main() -> int:
    with Path(sys.argv[1]).open("ab") as log:
        child = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdin is not None
        assert child.stdout is not None
        sending = threading.Thread(target=copy, args=(sys.stdin.buffer, child.stdin, "to", log), daemon=True)
        sending.start()
        copy(child.stdout, sys.stdout.buffer, "from", log)
        return child.wait()


if __name__ == "__main__":
    sys.exit(main())
