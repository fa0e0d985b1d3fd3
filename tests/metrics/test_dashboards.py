"""Dashboards and alerts name what a gateway really shows, and a real Prometheus finds data behind every panel."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gateway.turns.test_breakdowns import VARIED, place
from tests.support.prometheus import ROOT, scraping, tool
from tests.support.scrape import scrape
from tests.support.served import Served, serving
from tests.support.waiting import eventually, within
from tools.dashboards.boards import BOARDS
from tools.dashboards.build import FOLDER, text_of

ALERTS = ROOT / "metrics" / "alerts.yml"
CASES = Path(__file__).with_name("alerts_test.yml")
METRIC = re.compile(r"\b(?:ostler|process|python)_[a-z_]+\b")
PARTS = ("_bucket", "_sum", "_count", "_total")


def panels() -> Iterator[tuple[str, str]]:
    """(title, expression) of every query of the committed dashboards."""
    for path in sorted(FOLDER.glob("*.json")):
        board = json.loads(path.read_text())
        for panel in board["panels"]:
            for target in panel["targets"]:
                yield f"{board['title']}: {panel['title']}", target["expr"]


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def concrete(expr: str) -> str:
    """As Grafana would send it."""
    return expr.replace("$provider", ".*").replace("$__rate_interval", "20s")


async def live(served: Served, folder: Path) -> None:
    """Some of everything that a gateway does."""
    good, tools = place(folder, "good"), [{"type": "function", "name": "x", "parameters": {"type": "object"}}]
    for number in range(3):
        await served.say(f"hello {number}\n!call nothing {{}}", metadata={"cwd": good}, conversation="one")
        await served.say("hello", metadata={"cwd": good})
    await served.stream("hello", metadata={"cwd": good}, tools=tools)
    await served.ask("!die 3", metadata={"cwd": place(folder, "dies")})
    await served.http.get("/v1/responses/none")


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_the_committed_dashboard_is_what_its_code_makes(board: Any) -> None:
    assert (FOLDER / f"{board.uid}.json").read_text() == text_of(board), "run `make dashboards`"


def test_there_is_no_dashboard_without_code() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == {board.uid for board in BOARDS}


async def test_every_metric_that_a_dashboard_or_an_alert_names_is_in_a_live_scrape(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", memory__enabled=True, **VARIED) as served:
        await live(served, tmp_path)
        kinds = (await scrape(served)).kinds
    named = {name for _, expr in panels() for name in METRIC.findall(expr)}
    named |= {name for rule in rules() for name in METRIC.findall(rule["expr"])}
    known = {f"{name}{part}" for name in kinds for part in ("", *PARTS)}
    assert len(named) > 40
    assert named - known == set()


def test_the_alerts_are_sound_and_each_fires_and_keeps_quiet_where_it_should() -> None:
    checked = subprocess.run([tool("promtool"), "check", "rules", ALERTS], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    tried = subprocess.run([tool("promtool"), "test", "rules", CASES], capture_output=True, text=True, check=False)
    assert tried.returncode == 0, tried.stdout + tried.stderr


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    cases = [case for test in yaml.safe_load(CASES.read_text())["tests"] for case in test["alert_rule_test"]]
    names = {rule["alert"] for rule in rules()}
    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == names
    assert {case["alertname"] for case in cases if not case.get("exp_alerts")} == names


@pytest.mark.long
async def test_a_real_prometheus_finds_data_for_every_panel(tmp_path: Path) -> None:
    tool("prometheus")
    async with (
        serving(tmp_path / "data", memory__enabled=True, **VARIED) as served,
        scraping(tmp_path, served.base.removeprefix("http://")) as prometheus,
    ):
        async with within(300, "Prometheus has scraped twice"):
            await live(served, tmp_path)
            await prometheus.seen("up == 1 and count_over_time(up[1m]) > 1", "two scrapes")
            # A rate is known from the second look at a number on, so everything happens once more.
            await live(served, tmp_path / "again")
            await prometheus.seen('sum(ostler_turns_total{outcome="completed"}) >= 14', "all turns")
            await eventually(lambda: served.gateway.sessions.running == 0)
        empty = []
        for title, expr in panels():
            found = await prometheus.query(concrete(expr))
            if not found or all(each["value"][1] == "NaN" for each in found):
                empty.append((title, expr))
        alerts = (await prometheus.http.get("/api/v1/rules")).json()["data"]["groups"]
    assert empty == []
    assert [rule["health"] for group in alerts for rule in group["rules"]] == ["ok"] * len(rules())
