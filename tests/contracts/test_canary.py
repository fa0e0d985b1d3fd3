"""The doctor's canary is the contract in an operator's hand: it must find every provider private that passes here."""

import itertools
import os
import time
from pathlib import Path

from ostler.gateway.ops.doctor.report import AgentReport, Canary
from ostler.gateway.ops.doctor.trial import Bench, try_agent
from ostler.pool import PoolSettings
from ostler.pool.provider import Provider
from tools.agents.recipes import Recipe


async def test_wm7_the_doctor_finds_the_agent_private(provider: Provider, recipe: Recipe, tmp_path: Path) -> None:
    words, told = (f"heron{number:08x}" for number in itertools.count()), []
    bench = Bench(
        folder=tmp_path,
        settings=PoolSettings(providers={provider.name: recipe.settings}),
        environ={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        clock=time.monotonic,
        word=lambda: next(words),
        tell=told.append,
        patience=100,
        canary=True,
    )
    blank = AgentReport(provider.name, provider.title, wanted=True, installed=True, model=recipe.model)
    report = await try_agent(blank, bench)
    assert (report.canary, report.findings) == (Canary.PRIVATE, ())
    assert report.start_ms is not None
    assert len(told) == 3
