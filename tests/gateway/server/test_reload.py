"""The configuration is read again while the gateway serves: by SIGHUP and by `ostler config reload`."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx

from tests.support.copies import FRESH
from tests.support.serve_command import Command, command, environment
from tests.support.waiting import eventually, soon

KEYS = {"ann": "a-key-for-ann-0123456789", "bob": "a-key-for-bob-0123456789"}
ROOT = Path(__file__).resolve().parents[3]
DEMO = [sys.executable, str(ROOT / "demo" / "__main__.py"), "agent", "demo"]


def configuration(*, keys: tuple[str, ...] = ("ann",), acp: bool = True, pool: str = "", rest: str = "") -> str:
    agent = f"[providers.acp]\ncommand = {json.dumps(DEMO)}\n" if acp else ""
    rows = [
        f'[[auth.keys]]\nname = "{name}"\nsha256 = "{sha256(KEYS[name].encode()).hexdigest()}"\nper_minute = 1000000\n'
        f"concurrency = 100\n"
        for name in keys
    ]
    own = f'[pool]\npermissions = "auto"\n{pool}'  # of an agent of one's own no narrower level was measured
    return "\n".join([own, rest, '[models]\nown = "acp/own"\n' if acp else "", agent, *rows])


def client(running: Command, name: str = "ann") -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {KEYS[name]}"}
    return httpx.AsyncClient(base_url=running.base, headers=headers, timeout=300, trust_env=False)


async def ask(http: httpx.AsyncClient, model: str, conversation: str) -> httpx.Response:
    body = {"model": model, "input": "hello", "conversation": conversation}
    return await http.post("/v1/responses", json=body)


@asynccontextmanager
async def load(running: Command, answers: list[tuple[int, str]]) -> AsyncIterator[None]:
    """Conversations that go on until the block is over; each answer's HTTP status and its own."""

    async def talk(number: int) -> None:
        while not over.is_set():
            answer = await ask(http, "demo", f"c{number}")
            answers.append((answer.status_code, str(answer.json().get("status"))))

    over = asyncio.Event()
    async with client(running) as http, asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(talk(number))
        yield
        over.set()


async def told(running: Command, said: str) -> None:
    """SIGHUP, and the line that tells what came of it."""
    before = sum(said in str(line) for line in running.logged)
    running.process.send_signal(signal.SIGHUP)
    await eventually(lambda: sum(said in str(line) for line in running.logged) > before, said)


async def pool(folder: Path) -> dict[str, Any]:
    transport = httpx.AsyncHTTPTransport(uds=str(folder / "data" / "admin.sock"))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=300) as http:
        shown: dict[str, Any] = (await http.get("/admin/pool")).json()
        return shown


async def shown(folder: Path, wanted: Callable[[dict[str, Any]], bool]) -> None:
    """Wait until the admin socket tells such a state."""
    transport = httpx.AsyncHTTPTransport(uds=str(folder / "data" / "admin.sock"))
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=300) as http,
        http.stream("GET", "/admin/events") as events,
    ):
        async for line in events.aiter_lines():
            if line.startswith("data: ") and wanted(json.loads(line[6:])):
                return


def parked(state: dict[str, Any], key: str) -> int:
    return sum(each["parked"] for each in state["keys"] if key in each["key"])


async def test_a_limit_a_key_a_warm_key_and_a_removed_provider_are_taken_under_load(tmp_path: Path) -> None:
    file, answers = tmp_path / "ostler.toml", list[tuple[int, str]]()
    file.write_text(configuration(pool="max_processes = 6\n"))
    with command(tmp_path, "--config", str(file)) as running:
        async with client(running) as ann, client(running, "bob") as bob:
            assert (await ask(ann, "own", "own")).json()["status"] == "completed"
            assert (await ask(bob, "demo", "x")).status_code == 401
            async with load(running, answers):
                await eventually(lambda: len(answers) > 20, "there is load")
                file.write_text(
                    configuration(
                        keys=("ann", "bob"),
                        acp=False,
                        pool="max_processes = 7\n",
                        rest='[[pool.warm]]\nmodel = "demo/warm"\nseats = 2\n',
                    )
                )
                await told(running, "the configuration was read again")
                seen = len(answers)
                await eventually(lambda: len(answers) > seen + 20, "the load goes on")
                assert (await ask(bob, "demo", "x")).json()["status"] == "completed"
                assert (await ask(ann, "own", "own")).status_code == 404
                assert (await ask(ann, "acp/own", "other")).status_code >= 400

                await shown(tmp_path, lambda state: parked(state, "demo/warm") >= 2)
            assert (await pool(tmp_path))["census"]["max_processes"] == 7
        assert set(answers) == {(200, "completed")}
        assert running.end() == 0
    (line,) = [str(line) for line in running.logged if "the configuration was read again" in str(line)]
    for key in ("pool.max_processes", "pool.warm", "auth.keys", "models.own", "providers.acp.command"):
        assert key in line
    assert "ignored" not in line


async def test_a_broken_file_changes_nothing_and_is_one_line_that_names_the_key(tmp_path: Path) -> None:
    file = tmp_path / "ostler.toml"
    file.write_text(configuration())
    with command(tmp_path, "--config", str(file)) as running:
        async with client(running) as ann:
            for broken, named in [
                ("[pool\n", "is no TOML"),
                (configuration(pool="max_proceses = 6\n"), "pool.max_proceses"),
                (configuration(pool="max_processes = -1\n"), "pool.max_processes"),
                (configuration(rest='[gateway]\ndefault_model = "none/such"\n'), "gateway.default_model"),
                (configuration(keys=()), "there are no keys any more"),
            ]:
                file.write_text(broken)
                await told(running, "the configuration stays as it was")
                assert named in str(running.logged[-1]), running.logged[-1]
                assert (await ask(ann, "own", "x")).json()["status"] == "completed"
                assert (await ask(ann, "demo", "y")).json()["status"] == "completed"
        assert running.end() == 0
    errors = [line for line in running.logged if line.get("level") == "error"]
    assert len(errors) == 5, "one line each"


async def test_a_program_reloads_and_hears_what_was_taken(tmp_path: Path) -> None:
    file = tmp_path / "ostler.toml"
    file.write_text(configuration())
    with command(tmp_path, "--config", str(file)) as running:
        file.write_text(configuration(pool="idle_after = 77.0\n", rest="[gateway]\nseats_max = 6\n"))
        code, said = await ostler(tmp_path, "config", "reload", "--json")
        assert code == 0, said
        assert json.loads(said) == {
            "object": "config.reload", "taken": ["pool.idle_after"], "ignored": ["gateway.seats_max"]
        }  # fmt: skip
        code, said = await ostler(tmp_path, "config", "reload")
        assert (code, said.strip()) == (0, "taken: nothing has changed")
        file.write_text("[pool]\nmax_proceses = 6\n")
        code, said = await ostler(tmp_path, "config", "reload")
        assert code == 4
        assert "pool.max_proceses" in said
        assert running.end() == 0
    code, said = await ostler(tmp_path, "config", "reload")
    assert code == 3


async def ostler(folder: Path, *words: str) -> tuple[int, str]:
    """A command as an operator types it: its exit code, and what it printed."""
    line = [*FRESH, *words, "--data-dir", str(folder / "data")]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *line, cwd=folder, env=environment(folder, {}), stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await soon(process.communicate(), "the command ends")
    return process.returncode or 0, out.decode()


async def test_spares_of_a_provider_are_started_and_taken_away_by_a_reload(tmp_path: Path) -> None:
    file = tmp_path / "ostler.toml"
    spares = configuration(rest="[providers.demo]\nspares = 1\n")
    file.write_text(configuration())
    with command(tmp_path, "--config", str(file)) as running:
        async with client(running) as ann:
            assert (await ask(ann, "demo", "x")).json()["status"] == "completed"
            assert (await pool(tmp_path))["spares"] == []
            file.write_text(spares)
            await told(running, "the configuration was read again; taken: providers.demo.spares")
            await shown(tmp_path, lambda state: len(state["spares"]) == 1)
            file.write_text(configuration())
            await told(running, "the configuration was read again; taken: providers.demo.spares")
            await shown(tmp_path, lambda state: not state["spares"])
        assert running.end() == 0
