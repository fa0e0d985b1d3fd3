"""What operators are told is true, and complete: failures with whom they happened to, figures, reasons, log lines."""

import asyncio
import hashlib
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.ops.console.test_commands import ostler, told
from tests.support import copies
from tests.support.openai_oracle import judge_response
from tests.support.serve_command import Command, command, environment
from tests.support.served import SESSION, Served, serving, visiting
from tests.support.waiting import eventually

KEY = "operator-key-0123456789"
KEYS = [{"name": "ann", "sha256": hashlib.sha256(KEY.encode()).hexdigest(), "admin": True}]
pytestmark = pytest.mark.long


async def state(served: Served) -> dict[str, Any]:
    """GET /admin/pool"""
    found: dict[str, Any] = (await served.http.get("/admin/pool")).json()
    return found


async def test_n49_failures_stand_above_turns_with_reason_session_and_owner(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", auth__keys=KEYS, gateway__turn_limit=0.3) as served:
        served.http.headers["authorization"] = f"Bearer {KEY}"
        died = await served.ask("!die 3")
        late = await served.ask("said\n!sleep 60")
        await served.say("good")
        shown = (await state(served))["failed_turns"]
        page = (await served.http.get("/")).text
    assert [(turn["status"], turn["reason"], turn["owner"], turn["session"]) for turn in shown] == [
        ("incomplete", "time_limit", "ann", late.headers[SESSION]),
        ("failed", "agent_error", "ann", died.headers[SESSION]),
    ]
    assert page.index("Recent failures") < page.index("Processes by key") < page.index("Last turns")
    for said in ("failed (agent_error)", "incomplete (time_limit)", f"session {died.headers[SESSION]} of ann"):
        assert said in page[: page.index("Last turns")]


async def test_n49_served_at_once_counts_new_sessions_and_no_move(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__warm=[{"model": "demo"}]) as served:
        pool = served.gateway.pool
        await eventually(lambda: pool.snapshot().core.census.parked >= 1, "a seat is ready")
        assert "no sessions yet" in (await served.http.get("/")).text
        await served.say("hello", conversation="a")
        await served.say("again", conversation="a")
        assert (await state(served))["first_turns"] == {"all": 1, "at_once": 1}
        (number,) = [int(one.slot) for one in pool.snapshot().processes]
        pool.recycle(number)
        await eventually(
            lambda: number not in [int(one.slot) for one in pool.snapshot().processes], "the process is replaced"
        )
        await served.say("moved", conversation="a")
        assert sum((await state(served))["claims"].values()) >= 2
        assert (await state(served))["first_turns"] == {"all": 1, "at_once": 1}
        assert "1 of 1 new sessions" in (await served.http.get("/")).text


def test_n49_why_knows_a_program_that_is_missing_also_of_a_model_nobody_asked_for(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path)}
    with command(tmp_path, OSTLER_GATEWAY__DEFAULT_MODEL="gemini", **environ) as running:
        for model, package in (("gemini", "@google/gemini-cli"), ("qwen", "@qwen-code/qwen-code")):
            said = ostler(tmp_path, "pool", "why", model)
            assert said.returncode == 0, said.stderr
            assert "it cannot be started: no program" in said.stdout
            assert package in said.stdout
            assert package in told(tmp_path, "pool", "why", model)["trouble"]
        assert told(tmp_path, "pool", "why", "demo")["trouble"] == ""
        assert ostler(tmp_path, "pool", "why", "no/model").returncode == 4
        with running.http() as http:
            assert http.post("/v1/responses", json={"input": "hello"}).status_code == 503
        shown = ostler(tmp_path, "pool", "show").stdout
    assert "not ready: the default model 'gemini' cannot be started" in shown
    assert "failed (agent_unavailable)" in shown
    assert "no key was asked for" not in shown


def test_n49_config_check_tells_that_the_default_model_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "ostler.toml").write_text('[gateway]\ndefault_model = "gemini"\n')
    words = ["config", "check", "--data-dir", str(tmp_path / "data")]
    env = {**environment(tmp_path, {}), "PATH": str(tmp_path)}
    said = copies.run(words, cwd=tmp_path, env=env, timeout=30)
    assert said.returncode == 0, said.stderr
    assert "good: ostler.toml" in said.stdout
    assert "but not ready: the default model 'gemini' cannot be started here: no program 'gemini'" in said.stdout


def breakdowns(running: Command) -> list[dict[str, Any]]:
    """What was logged of turns."""
    return running.events("cold_start_breakdown")


def test_n49_only_turns_that_waited_are_logged_at_the_usual_level_with_model_and_owner(tmp_path: Path) -> None:
    environ = {"OSTLER_LOG__LEVELS": "{}", "OSTLER_AUTH__KEYS": json.dumps(KEYS)}
    with command(tmp_path, **environ) as running, running.http() as http:
        http.headers["authorization"] = f"Bearer {KEY}"
        for _ in range(3):
            assert http.post("/v1/responses", json={"input": "hi", "conversation": "c"}).status_code == 200
        assert running.end() == 0
        (only,) = breakdowns(running)
    assert only["spawn"] > 0
    assert (only["model"], only["owner"], only["level"]) == ("demo/demo", "ann", "info")


def test_n49_sighup_says_what_it_took_and_what_it_ignored(tmp_path: Path) -> None:
    file, keys = tmp_path / "ostler.toml", tmp_path / "data" / "keys.toml"
    file.write_text("[gateway]\nseats_max = 5\n")
    with command(tmp_path) as running:
        hang_up(running, "the configuration was read again; the configuration file has not changed")
        keys.touch(mode=0o600)
        keys.write_text(f'[[keys]]\nname = "ann"\nsha256 = "{KEYS[0]["sha256"]}"\n')
        file.write_text('[gateway]\nseats_max = 6\n[pool]\nroots = ["/srv"]\n')
        hang_up(running, "taken: pool.roots; ignored until a restart: gateway.seats_max")
        assert "the keys were read again: 1 are in force, 1 new, 0 gone, 0 changed" in str(running.logged)
        file.write_text("[gateway\n")
        hang_up(running, "the configuration stays as it was")
        assert running.end() == 0


def hang_up(running: Command, said: str) -> None:
    """Send SIGHUP and wait for what it says."""
    running.process.send_signal(signal.SIGHUP)
    asyncio.run(eventually(lambda: said in str(running.logged), said))


async def test_n49_a_turn_that_a_drain_ends_before_its_agent_heard_of_it_failed_and_may_be_asked_again(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path / "data") as served, visiting(served) as other:
        sessions = served.gateway.sessions
        first = asyncio.create_task(served.stream("begun\n!late", conversation="c"))
        await eventually(lambda: len(served.prompts()) == 1, "the first turn runs")
        (session_id,) = [row[0] for row in served.rows("select id from sessions")]
        session = sessions.find(session_id)
        assert session is not None
        whole = asyncio.create_task(served.ask("waits", conversation="c"))
        streamed = asyncio.create_task(other.stream("waits too", conversation="c"))
        await eventually(lambda: session.waiting == 2, "two turns wait")
        await sessions.drain(0)
        refused, last, begun = await whole, (await streamed)[-1], (await first)[-1]
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
    assert int(refused.headers["retry-after"]) >= 1
    assert (last["type"], last["response"]["error"]["code"]) == ("response.failed", "server_error")
    assert "try again" in last["response"]["error"]["message"]
    assert last["response"]["incomplete_details"] is None
    judge_response(last["response"])
    assert (begun["type"], begun["response"]["incomplete_details"]["cause"]) == (
        "response.incomplete",
        "gateway_shutdown",
    )
