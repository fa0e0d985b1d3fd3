"""The product files that one streamed turn runs through, in the gateway's process: `python -m tools.follow [--warm]`.

A gateway is started with a profiler, told to note, asked one question as a client would, and told to stop. Counted are
files with a function that was called between the request and its last frame, idle loops included. `--warm`: the second
turn of a conversation, which needs no new seat.
"""

import argparse
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("wire", "process", "metrics", "demo", "pool", "bridge", "gateway")
SERVE = """
import os, signal, sys, threading
called, noting = set(), False
def note(frame, event, _arg):
    if noting and event == "call":
        called.add(frame.f_code.co_filename)
def turn(*_):
    global noting
    noting = not noting
    if noting:
        called.clear()
    print("noting" if noting else "\\n".join(["called", *sorted(called), "end"]), flush=True)
signal.signal(signal.SIGUSR1, turn)
sys.setprofile(note)
threading.setprofile(note)
from ostler.gateway.__main__ import main
sys.exit(main(["serve", "--port", "0", "--data-dir", sys.argv[1]]))
"""


def main() -> int:
    """Print the files, and how many there are."""
    parser = argparse.ArgumentParser(prog="python -m tools.follow", description=__doc__)
    parser.add_argument("--warm", action="store_true", help="the second turn of a conversation")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="follow-") as folder:
        environ = {"PATH": os.environ["PATH"], "HOME": folder, "OSTLER_MEMORY__ENABLED": "false"}
        line = [sys.executable, "-c", SERVE, f"{folder}/data"]
        gateway = subprocess.Popen(line, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            found = followed(gateway, given.warm)
        finally:
            gateway.terminate()
            gateway.wait()
    print("\n".join(found), f"{len(found)} files", sep="\n")
    return 0


def followed(gateway: "subprocess.Popen[str]", warm: bool) -> list[str]:
    """The files of one turn."""
    assert gateway.stdout is not None
    address = gateway.stdout.readline().split("http://")[1].split()[0].rstrip(";")
    if warm:
        ask(address)
    until(gateway, "noting")
    ask(address)
    lines = until(gateway, "end")
    inside = {str(Path(each).relative_to(ROOT)) for each in lines if each.startswith(f"{ROOT}/")}
    return sorted(each for each in inside if each.split("/")[0] in ROOMS)


def until(gateway: "subprocess.Popen[str]", last: str) -> list[str]:
    """Send the signal, and return what the gateway prints up to this line."""
    assert gateway.stdout is not None
    gateway.send_signal(signal.SIGUSR1)
    lines: list[str] = []
    while not lines or lines[-1] != last:
        lines.append(gateway.stdout.readline().strip())
    return lines


def ask(address: str) -> None:
    """One streamed turn, to its last frame."""
    connection = http.client.HTTPConnection(address, timeout=60)
    body = json.dumps({"model": "demo", "input": "hello", "stream": True, "conversation": "one"})
    connection.request("POST", "/v1/responses", body, {"content-type": "application/json"})
    answer = connection.getresponse().read()
    assert b"response.completed" in answer, answer


if __name__ == "__main__":
    sys.exit(main())
