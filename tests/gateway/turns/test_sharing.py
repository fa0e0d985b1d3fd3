"""The performance run, as far as it can be proven without a clock: `python -m bench sharing` publishes the figures."""

import asyncio
import urllib.request
from pathlib import Path

import pytest

from bench import sharing
from bench.measure import Report
from tests.support.scrape import Scraped, read

BOOT = 0.3


def scraped(port: int) -> Scraped:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=300) as answer:
        return read(answer.read().decode())


def test_g13_a_pre_warmed_first_turn_skips_the_boot_of_the_agent_and_a_cold_one_waits_for_it(tmp_path: Path) -> None:
    (warm,), (cold,) = sharing.directories(tmp_path, "warm", 1), sharing.directories(tmp_path, "cold", 1)
    with sharing.sharing(tmp_path / "gateway", pool=True, boot=BOOT, warm=[warm]) as running:
        asyncio.run(sharing.wait_for_agents(running, 1))
        asyncio.run(sharing.first_turn(running.port, warm))
        told = scraped(running.port)
        assert told.total("ostler_pool_claims_total") == 1
        assert told.total("ostler_pool_claims_total", warmth="cold") == 0
        assert told.total("ostler_turn_phase_seconds_sum", phase="spawn") < BOOT / 2
        took = asyncio.run(sharing.first_turn(running.port, cold))
        told = scraped(running.port)
        assert told.total("ostler_pool_claims_total", warmth="cold") == 1
        assert told.total("ostler_turn_phase_seconds_sum", phase="spawn") >= BOOT
        assert took >= BOOT


@pytest.mark.parametrize("pool", [True, False])
def test_g13_sessions_share_one_process_or_have_one_each_and_memory_grows_so(pool: bool, tmp_path: Path) -> None:
    with sharing.sharing(tmp_path / "gateway", pool=pool, boot=0.0) as running:
        found = list(sharing.grown(running, (1, 2, 4)))
    assert [processes for _, processes, _ in found] == ([1, 1, 1] if pool else [1, 2, 4])
    small, _, large = (size for _, _, size in found)
    assert small > 0
    if pool:
        assert large < 1.5 * small
    else:
        assert large > 2.5 * small


def test_g13_the_bench_publishes_every_figure_that_is_asked_for(tmp_path: Path) -> None:
    report = Report("")
    sharing.sizes(report, tmp_path, (1, 2), 3)
    sharing.firsts(report, tmp_path, 1)
    names = " | ".join(row.name for row in report.rows)
    for figure in ("pre-warmed", "cold", "memory of the agents at 2 sessions", "p99"):
        assert figure in names
    assert {"pool: a turn of a session with a seat", "no pool: a turn of a session with a seat"} <= {
        row.name for row in report.rows
    }
    assert all(claim.holds for claim in report.claims if "agents" in claim.name)
    assert len(report.headlines) == 2
