"""What README and the documents show is run as it stands there, against a gateway of a fresh install."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench._table import BEGIN, END
from ostler.gateway.config.load import load
from ostler.gateway.ops.settings_check import check
from ostler.pool.providers import load as load_providers
from tests.support.documents import ADDRESS, ROOT, SAYS, Block, anchors, blocks, documents, links
from tests.support.serve_command import Command, command
from tools import reference

README = ROOT / "README.md"
ALL = [block for file in documents() for block in blocks(file)]


def those(language: str) -> list[Block]:
    """The blocks of one language that are run."""
    return [block for block in ALL if block.language == language and block.reason is None]


@dataclass(frozen=True)
class Fresh:
    """What `make serve` gives."""

    running: Command
    data: Path

    @property
    def address(self) -> str:
        return self.running.base.removeprefix("http://")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fresh]:
    """One for all blocks. Its reader has said hello: a pool that was never asked holds nothing to show."""
    folder = tmp_path_factory.mktemp("gateway")
    with command(folder) as running, running.http() as http:
        http.post("/v1/responses", json={"model": "demo", "input": "hello"}).raise_for_status()
        yield Fresh(running, folder / "data")


def run(line: list[str], fresh: Fresh, folder: Path) -> "subprocess.CompletedProcess[str]":
    """As a reader does who has installed it: `ostler` on PATH, a folder of their own, the gateway running."""
    (folder / ".curlrc").write_text("fail\nsilent\nshow-error\n")
    environ = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "CURL_HOME": str(folder),
        "OSTLER_DATA_DIR": str(fresh.data),
    }
    return subprocess.run(line, cwd=folder, env=environ, capture_output=True, text=True, timeout=300, check=False)


def addressed(block: Block, fresh: Fresh) -> str:
    """The gateway of this test instead of the reader's."""
    return block.text.replace(ADDRESS, fresh.address)


@pytest.mark.parametrize("block", those("sh"), ids=str)
def test_the_commands_succeed(block: Block, gateway: Fresh, tmp_path: Path) -> None:
    done = run(["sh", "-eu", "-c", addressed(block, gateway)], gateway, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


@pytest.mark.parametrize("block", those("python"), ids=str)
def test_the_programs_print_what_is_said_beside_them(block: Block, gateway: Fresh, tmp_path: Path) -> None:
    done = run([sys.executable, "-c", addressed(block, gateway)], gateway, tmp_path)
    assert done.returncode == 0, done.stderr
    said = SAYS.findall(block.text)
    assert said, "a program that prints nothing shows nothing"
    assert done.stdout.splitlines() == said


@pytest.mark.parametrize("block", those("toml"), ids=str)
def test_the_configurations_are_good(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "ostler.toml"
    file.write_text(block.text)
    loaded = load({}, config=str(file), data_dir=str(tmp_path))
    check(loaded.settings, tmp_path)


def test_the_configuration_of_the_readme_means_the_same_in_the_environment(tmp_path: Path) -> None:
    (block,) = (block for block in blocks(README) if block.language == "toml")
    file = tmp_path / "ostler.toml"
    file.write_text(block.text)
    environ = dict(re.findall(r"# (OSTLER_\w+)=(\S+)", block.text))
    assert len(environ) == 3
    by_file = load({}, config=str(file), data_dir=str(tmp_path)).settings
    assert load(environ, data_dir=str(tmp_path)).settings == by_file
    models, pool = check(by_file, tmp_path)
    assert models.resolve(models.default) == ("gemini-acp", "gemini-2.5-flash")
    assert pool.warm


def test_every_block_is_run_or_says_why() -> None:
    assert {block.language for block in ALL} <= {"sh", "python", "toml"}
    unrun = [block for block in ALL if block.reason is not None]
    print(f"{len(ALL)} blocks, {len(unrun)} not run", *(f"{block}: {block.reason}" for block in unrun), sep="\n")
    assert all(len(block.reason or "") > 20 for block in unrun)
    assert len(unrun) <= 6
    assert len(ALL) - len(unrun) >= 20


def test_every_link_leads_somewhere(gateway: Fresh) -> None:
    for file in documents():
        for link in links(file):
            if ADDRESS in link:
                with gateway.running.http() as http:
                    assert http.get(link.partition(ADDRESS)[2] or "/").status_code == 200, link
                continue
            path, _, anchor = link.partition("#")
            target = (file.parent / path) if path else file
            assert target.exists(), f"{file.name}: {link}"
            assert not anchor or anchor in anchors(target), f"{file.name}: {link}"


def test_the_readme_can_be_read_in_one_go() -> None:
    lines = README.read_text().splitlines()
    assert len(lines) < 250
    shown = {line for block in blocks(README) for line in block.text.splitlines()}
    assert {line for line in lines if line.startswith("    ")} <= shown, "code stands in fences, where it is run"


@pytest.mark.parametrize("short", ["gemini", "codex", "claude", "qwen", "opencode"])
def test_the_three_steps_of_an_agent_are_those_that_it_declares(short: str, gateway: Fresh, tmp_path: Path) -> None:
    (provider,) = (one for one in load_providers().values() if one.short == short)
    (row,) = (line for line in README.read_text().splitlines() if line.startswith(f"| {short} |"))
    _, _, install, keys, trial, _ = (cell.strip() for cell in row.split("|"))
    assert install == f"`{provider.install}`"
    assert tuple(re.findall(r"`(\w+)`", keys)) == provider.credentials
    assert trial == f"`ostler doctor {short}`"
    # Here it finds none of them. That it knows them is what counts; `make agents` takes the steps to their end.
    looked = run([*trial.strip("`").split(), "--no-start", "--json"], gateway, tmp_path)
    assert provider.name in looked.stdout, looked.stderr


def test_the_table_of_figures_was_written_by_the_program_that_it_names() -> None:
    block = README.read_text().partition(BEGIN)[2].partition(END)[0]
    about, _, head, _, *rows = block.strip().splitlines()
    assert re.match(r"`python -m bench( \w+)*( --quick)?` on \d+ cores of .+, load [\d.]+ at the start\.", about)
    assert head == "| | ostler | beside it | ratio |"
    assert len(rows) >= 10
    for row in rows:
        _, what, ours, beside, ratio, _ = row.split("|")
        assert re.fullmatch(r" .+ \(.+\) ", what)
        assert re.fullmatch(r" .+ \*\*[\d.,]+\*\* ", ours)
        assert all(re.fullmatch(r".+ [\d.,]+ \([\d.,]+ ×\)", one) for one in beside.strip().split(" · ")), beside
        assert re.fullmatch(r" [\d.,]+ × .+ (±\d+%|\(one round\)) ", ratio), ratio


def test_the_reference_is_that_of_the_settings_and_providers() -> None:
    assert reference.FILE.read_text() == reference.text(), "run `make reference`"
    assert reference.AGENTS.read_text() == reference.agents(reference.AGENTS.read_text()), "run `make reference`"
