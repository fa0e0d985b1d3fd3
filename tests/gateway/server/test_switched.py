"""The bench that says what counting costs, in brief: it counts when it is told to, and not when it is not."""

import asyncio
import urllib.request
from pathlib import Path

from bench._gateway.switched import switchable
from bench.metrics import BLOCK, blocks
from tests.support.scrape import read


def test_the_switched_gateway_counts_every_other_block_and_nothing_between(tmp_path: Path) -> None:
    rounds = 3
    with switchable(tmp_path) as gateway:
        on, off = asyncio.run(blocks(gateway, rounds))
        with urllib.request.urlopen(f"http://127.0.0.1:{gateway.port}/metrics", timeout=300) as answer:
            told = read(answer.read().decode())
    assert len(on) == len(off) == rounds
    assert min(*on, *off) > 0
    # The block that opens a conversation is nobody's; the switch is on while it runs.
    assert told.total("ostler_turns_total") == BLOCK * (rounds + 1)
    assert told.total("ostler_http_requests_total", route="/v1/responses") == BLOCK * (rounds + 1)
