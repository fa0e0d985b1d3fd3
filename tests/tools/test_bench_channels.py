"""The bench of channels measures what is installed for `make agents`, whatever PATH says."""

import json
import subprocess
import sys
from pathlib import Path

from bench._pool.each_channel import those_with_a_choice
from bench._pool.ground import Ground

ROOT = Path(__file__).parents[2]


def test_it_takes_the_installed_agents_that_have_a_choice() -> None:
    assert those_with_a_choice(["gemini-acp", "hermes-acp"]) == ["demo", "gemini-acp"]
    assert those_with_a_choice([]) == ["demo"]


def test_an_installed_agent_is_found_in_its_install(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    path = Ground(tmp_path, tmp_path / "install", "http://127.0.0.1:1", True).settings().env["PATH"]
    assert path.startswith(str(tmp_path / "install"))


def test_its_report_has_each_channel_of_the_demo_agent(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    plan = {"folder": str(tmp_path), "report": str(report), "installs": {}, "quick": True, "alone": False, "acpx": None}
    line = [sys.executable, "-m", "bench._pool.each_channel", json.dumps(plan)]
    subprocess.run(line, cwd=ROOT, check=True, capture_output=True, timeout=300)
    rows = [row["name"] for row in json.loads(report.read_text())["rows"]]
    assert rows == [f"demo, {way}: {what}" for way in ("relay", "http", "acp") for what in ("open", "a session")]
