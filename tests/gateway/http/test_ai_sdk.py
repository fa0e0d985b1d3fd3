"""The AI SDK of the JavaScript world, unmodified, runs an agent with two tools on both APIs."""

import asyncio
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.served import Served
from tools.agents.pins import InstallFailed, cache_folder, install
from tools.clients.pins import AI_SDK

PROGRAM = AI_SDK.manifest.with_name("agent.mjs")


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program beside its packages, as node looks for them; or the reason why this machine has none."""
    if shutil.which("node") is None:
        pytest.skip("there is no node on PATH")
    try:
        home = install(AI_SDK, cache_folder(), print)
    except InstallFailed as failure:
        pytest.skip(f"npm could not install {AI_SDK.provider} {AI_SDK.version}: {failure}")
    folder = tmp_path_factory.mktemp("ai-sdk")
    (folder / "node_modules").symlink_to(home / "node_modules")
    return Path(shutil.copy(PROGRAM, folder))


def run(program: Path, base: str) -> list[dict[str, Any]]:
    """What the program says of each run."""
    done = subprocess.run(["node", program, base], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


async def test_a_two_tool_agent_in_javascript(served: Served, program: Path) -> None:
    runs = await asyncio.to_thread(run, program, f"{served.base}/v1")
    assert [(said["api"], said["stream"]) for said in runs] == [
        (api, stream) for api in ("responses", "chat") for stream in (False, True)
    ]
    for said in runs:
        assert said["results"] == [["get_weather", "sunny in Paris"], ["get_time", "noon"]]
        assert [text.strip() for text in said["texts"]] == ["echo: before", "sunny in Paris", "noon"]
        assert said["deltas"] == ("".join(said["texts"]) if said["stream"] else "")
        assert said["ends"] == ["tool-calls", "tool-calls", "stop"]
        assert said["warnings"] == []
        assert said["tokens"] > 0
    assert len(served.prompts()) == len(runs)
    assert served.seats() == len(runs)
