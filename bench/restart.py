"""kill -9 of a whole gateway with conversations in it: how long until one of them goes on, with its history.

Rules: a start on an empty data folder, to its first answer, is taken between the kills: it is the least that any
restart can take. What is acknowledged is asked for again, and a wrong answer fails the bench.
"""

import asyncio
import tempfile
import time
from pathlib import Path

from bench._gateway.client import Client
from bench._gateway.process import gateway
from bench.measure import Report, interleave


def run(quick: bool) -> Report:
    """The comparison."""
    talks = 20 if quick else 100
    report = Report(f"kill -9 of a gateway with {talks} conversations")
    with tempfile.TemporaryDirectory(prefix="ostler-bench-") as name:
        folders = iter(range(10_000))

        def place() -> Path:
            folder = Path(name) / str(next(folders))
            folder.mkdir()
            return folder

        cases = {
            "after kill -9, with its history": lambda: killed(place(), talks),
            "empty start": lambda: empty(place()),
        }
        found = interleave(cases, rounds=2 if quick else 7)
    title = "kill -9 of the gateway, until a conversation goes on"
    report.compare(title, "ms", found, against="empty start")
    return report


def empty(folder: Path) -> float:
    """Milliseconds from nothing to an answer."""
    began = time.perf_counter()
    with gateway(folder) as running:
        said = asyncio.run(say(running.port, ["hello"], "first"))
        took = time.perf_counter() - began
    assert b"echo: hello" in said, said
    return took * 1e3


def killed(folder: Path, talks: int) -> float:
    """Milliseconds from the kill to the answer that knows what was said before it."""
    with gateway(folder) as running:
        for number in range(talks):
            asyncio.run(say(running.port, [f"word {number}"], f"talk {number}"))
        began = time.perf_counter()
        running.process.kill()
        running.process.wait()
    with gateway(folder) as running:
        said = asyncio.run(say(running.port, ["!recall"], f"talk {talks // 2}"))
        took = time.perf_counter() - began
    assert f"word {talks // 2}".encode() in said, said
    return took * 1e3


async def say(port: int, words: list[str], name: str) -> bytes:
    """The answer to the last of them."""
    client = await Client.to(port)
    answer = b""
    for word in words:
        answer = await client.ask(word, conversation=name)
    await client.close()
    return answer
