"""What `examples/` shows is run, and what cannot be run here is checked by the tool of its trade."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ostler.pool.providers import load
from tests.support.prometheus import tool
from tools.agents.pins import PINS

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


@pytest.mark.parametrize("name", ["embed_async.py", "embed_threads.py"])
def test_e13_four_sessions_are_served_by_one_process(name: str, tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], capture_output=True, text=True, timeout=300, env=environ, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    *answers, count = done.stdout.splitlines()
    assert {line.split("  ")[0] for line in answers} == {
        f"{name}: echo: my name is {name}" for name in ("ann", "bob", "cy", "dee")
    }
    assert count == "1 process served 4 sessions"


def test_the_units_are_sound(tmp_path: Path) -> None:
    judge = shutil.which("systemd-analyze")
    if judge is None:
        pytest.skip("systemd-analyze is not here")
    for unit in ("ostler.service", "ostler.socket"):
        text = (EXAMPLES / unit).read_text()
        (tmp_path / unit).write_text(text.replace("/opt/ostler/bin/ostler", "/bin/true"))
    done = subprocess.run(
        [judge, "verify", "--man=no", tmp_path / "ostler.service", tmp_path / "ostler.socket"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_steps_of_the_unit_make_what_it_needs() -> None:
    text = (EXAMPLES / "ostler.service").read_text()
    steps = "\n".join(re.findall(r"^#   (.+)$", text, re.MULTILINE))
    (user,) = re.findall(r"^User=(\w+)$", text, re.MULTILINE)
    (config,) = re.findall(r"^ExecStart=.* --config (\S+)$", text, re.MULTILINE)
    (secrets,) = re.findall(r"^EnvironmentFile=-(\S+)$", text, re.MULTILINE)
    assert re.search(rf"^useradd .* {user}$", steps, re.MULTILINE)
    assert f"touch {config}" in steps
    assert f"-m 600 /dev/null {secrets}" in steps
    assert f"\nAssertPathExists={config}\n" in text


def test_the_image_is_sound() -> None:
    judge = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if judge is None:
        pytest.skip("hadolint is not here: it is made for Linux on x86-64")
    done = subprocess.run([judge, EXAMPLES / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_has_the_agent_that_was_measured() -> None:
    (pinned,) = re.findall(r"@google/gemini-cli@([\d.]+)", (EXAMPLES / "Dockerfile").read_text())
    (pin,) = (pin for pin in PINS if pin.provider == "gemini-acp")
    assert pinned == load()["gemini-acp"].measured == pin.version


def test_prometheus_takes_its_example_with_our_alerts() -> None:
    done = subprocess.run(
        [tool("promtool"), "check", "config", EXAMPLES / "prometheus.yml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rules = [group["rules"] for group in yaml.safe_load((ROOT / "metrics/alerts.yml").read_text())["groups"]]
    assert f"{sum(map(len, rules))} rules found" in done.stdout


def test_grafana_is_given_the_prometheus_and_every_dashboard() -> None:
    provisioning = EXAMPLES / "grafana/provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources/ostler.yml").read_text())["datasources"]
    assert (source["type"], source["isDefault"]) == ("prometheus", True)
    text = (provisioning / "dashboards/ostler.yml").read_text()
    (folder,) = yaml.safe_load(text)["providers"]
    # Grafana resolves variables in the files that it is provisioned with; the comment says what this one is set to.
    assert folder["options"]["path"] == "$OSTLER_DASHBOARDS"
    (named,) = re.findall(r"OSTLER_DASHBOARDS=\$PWD/(\S+)", text)
    boards = [json.loads(path.read_text()) for path in (ROOT / named).glob("*.json")]
    assert boards
    for board in boards:
        (asked,) = (each for each in board["templating"]["list"] if each["type"] == "datasource")
        assert asked["query"] == source["type"]
