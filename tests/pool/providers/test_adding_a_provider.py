"""The provider of `docs/adding-a-provider.md`, installed as the page says, by a user who has a package of their own."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ostler.demo.launch import command_line
from tests.support.documents import ROOT, blocks

NAME = "my-agent-acp"
CANARY = "SECRET-of-the-operator-0123456789"
RECIPE = f"""
from ostler.pool.launch.settings import ProviderSettings
from tools.agents.recipes import Recipe
from tests.contracts import built_in


def recipe(home):
    return Recipe(ProviderSettings(home=str(home), env={{"MY_AGENT_KEY": "{CANARY}"}}), "demo", asks="!ask")


built_in.BUILT_IN = {{**built_in.BUILT_IN, "{NAME}": recipe}}
"""


TOOL = """
from ostler.bridge import Tool


def zebra(stripes: int) -> int:
    return stripes


TOOL = Tool.of(zebra)
"""
HOLDERS = [
    "pool/providers/test_provider.py",
    "bridge/test_tools.py",
    "pool/launch/test_launch.py",
    "gateway/turns/test_own_tools.py",
    "gateway/ops/console/test_doctor.py",
    "pool/test_names.py",
]
"""Tests that load every provider or every tool."""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A package with the sample and its entry point, and a program of the name that the sample looks for."""
    site, programs = tmp_path / "site", tmp_path / "bin"
    facts = site / "my_agent-1.0.dist-info"
    facts.mkdir(parents=True)
    (sample,) = (block for block in blocks(ROOT / "docs/adding-a-provider.md") if block.language == "python")
    (site / "my_agent.py").write_text(sample.text)
    (site / "my_recipe.py").write_text(RECIPE)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: my-agent\nVersion: 1.0\n")
    (site / "my_tool.py").write_text(TOOL)
    (facts / "entry_points.txt").write_text(
        "[ostler.providers]\nmy-agent = my_agent:PROVIDER\n[ostler.tools]\nmy-tool = my_tool:TOOL\n"
    )
    programs.mkdir()
    (programs / "my-agent").write_text(f'#!/bin/sh\nexec {shlex.join(command_line([]))} "$@"\n')
    (programs / "my-agent").chmod(0o755)
    path = os.pathsep.join((str(programs), os.environ["PATH"]))
    return {"PATH": path, "HOME": str(tmp_path), "PYTHONPATH": str(site), "MY_AGENT_KEY": CANARY, "LANG": "C.UTF-8"}


@pytest.mark.long
def test_n52_the_sample_of_a_provider_passes_the_doctor(environ: dict[str, str], tmp_path: Path) -> None:
    line = [
        sys.executable,
        "-m",
        "ostler.gateway",
        "doctor",
        "my-agent",
        "--json",
        "--data-dir",
        str(tmp_path / "data"),
    ]
    done = subprocess.run(line, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (agent,) = json.loads(done.stdout)["agents"]
    assert (agent["provider"], agent["installed"]) == (NAME, True)
    assert [finding for finding in agent["findings"] if finding["level"] == "fault"] == []
    assert CANARY not in done.stdout + done.stderr


@pytest.mark.long
def test_n52_the_sample_of_a_provider_passes_the_contract_suite(environ: dict[str, str]) -> None:
    options = ["-p", "my_recipe", "-p", "no:cacheprovider", "-p", "no:xdist", "-q"]
    line = [sys.executable, "-m", "pytest", *options, ROOT / "tests/contracts", "-k", NAME]
    done = subprocess.run(line, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout[-30000:] + done.stderr
    assert "passed" in done.stdout.splitlines()[-1]


@pytest.mark.long
def test_n52_no_test_holds_a_list_that_one_more_provider_or_tool_would_break(environ: dict[str, str]) -> None:
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "-q"]
    line = [sys.executable, "-m", "pytest", *options, *(ROOT / "tests" / name for name in HOLDERS)]
    done = subprocess.run(line, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout[-30_000:] + done.stderr
