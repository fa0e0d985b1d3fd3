"""Groups E and G over HTTP: which process answers, what a turn waited for, and what is logged of it."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import psutil
import pytest

from ostler.demo.launch import command_line
from tests.gateway.turns.test_client_tools import TOOLS
from tests.support.served import SESSION, Served, client, gateway_at, serving, text_of
from tests.support.waiting import eventually

Facts = dict[str, Any]


def breakdowns(caplog: pytest.LogCaptureFixture) -> list[Facts]:
    """The facts of every `cold_start_breakdown`, in order."""
    records = [record for record in caplog.records if record.name == "ostler.turns"]
    return [vars(record) for record in records]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, "ostler.turns")
    return caplog


async def test_agents_run_under_the_prefix_and_the_limits_of_the_configuration(tmp_path: Path) -> None:
    demo = {"demo": {"prefix": ["env", "UNDER=a prefix"], "rlimits": {"nofile": 512}}}
    async with gateway_at(tmp_path / "data", demo, {}, {}) as (gateway, base), client(base) as http:
        answer = await http.post("/v1/responses", json={"model": "demo", "input": "hello"})
        assert text_of(answer.json()) == "echo: hello"
        (agent,) = [psutil.Process(each.pid) for each in gateway.pool.snapshot().processes]
        assert agent.environ()["UNDER"] == "a prefix"
        assert agent.rlimit(psutil.RLIMIT_NOFILE) == (512, 512)
        assert psutil.Process().rlimit(psutil.RLIMIT_NOFILE) != (512, 512)


async def test_e24_turns_of_all_routes_with_one_key_share_a_process(served: Served) -> None:
    body = {"model": "demo", "messages": [{"role": "user", "content": "hello"}]}
    plain, chat, streamed = await asyncio.gather(
        served.ask("hello"), served.http.post("/v1/chat/completions", json=body), served.stream("hello")
    )
    assert [plain.status_code, chat.status_code, streamed[-1]["type"]] == [200, 200, "response.completed"]
    assert served.starts() == 1


async def test_e25_g09_a_failed_shared_start_is_answered_by_an_own_process(
    tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    flags = ("--fail-first-starts", "1", "--fail-state", str(tmp_path / "starts"))
    async with serving(tmp_path / "data", *flags, gateway__seat_idle=0.3) as served:
        assert await served.say("!tools", tools=TOOLS) == "get_time\nget_weather"
        assert len([record for record in log.records if record.levelno == logging.ERROR]) == 1
        (facts,) = breakdowns(log)
        assert (facts["transport"], facts["transport_from_pool"]) == ("agent", False)
        own = [view.pid for view in served.gateway.pool.snapshot().processes if view.private and view.pid]
        assert len(own) == 1
        await eventually(lambda: not psutil.pid_exists(own[0]), "the process ends with its session")


async def test_e26_a_session_that_was_let_go_comes_back_to_its_process(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", "--no-load", gateway__seats_max=1) as served:
        first = await served.ask("apple", tools=TOOLS, conversation="a")
        await served.say("hello", tools=TOOLS, conversation="b")
        again = await served.ask("!recall", tools=TOOLS, conversation="a")
        assert text_of(again.json()) == "apple"
        assert again.headers[SESSION] == first.headers[SESSION]
        assert served.starts() == 1
        opened = {frame["params"]["sessionId"] for frame in served.frames("session/prompt")}
        assert len(opened) == 3
        servers = [frame["params"]["mcpServers"] for frame in served.frames("session/new")]
        tokens = [each["value"] for (server,) in filter(None, servers) for each in server["env"]]
        bindings = [token for token in tokens if len(token) == 32]
        assert len(set(bindings)) == len(bindings) >= 3


@pytest.mark.parametrize("whole", [True, False], ids=["its record is whole", "its record lost a turn"])
async def test_w41d_e26_a_session_that_comes_back_knows_all_that_was_said(tmp_path: Path, *, whole: bool) -> None:
    state = tmp_path / "state"
    async with serving(tmp_path / "data", "--state-dir", str(state), gateway__seats_max=1) as served:
        await served.say("apple", conversation="a")
        (record,) = state.iterdir()
        before = record.read_text()
        await served.say("pear", conversation="a")
        await served.say("hello", conversation="b")
        if not whole:
            record.write_text(before)
        assert await served.say("!recall", conversation="a") == "apple\npear"
        assert len(served.frames("session/load")) == 1
        assert ("pear" in served.prompts()[-1]) is not whole


async def test_g07_a_warm_process_costs_no_start_also_after_a_release(
    tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path / "data", "--boot-delay", "0.5", pool__prewarm=True, gateway__seats_max=1) as served:
        pool = served.gateway.pool
        await eventually(lambda: any(view.sessions for view in pool.snapshot().processes), "a seat is ready")
        for name in "aba":
            await served.say("hello", conversation=name, model="demo/demo")
    assert [facts["spawn"] <= 5 for facts in breakdowns(log)] == [True] * 3


async def test_g07_without_the_pool_every_new_process_is_waited_for(
    tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    settings = {"pool__enabled": False, "gateway__seats_max": 1}
    async with serving(tmp_path / "data", "--boot-delay", "0.5", **settings) as served:
        for name in "aaba":
            await served.say("hello", conversation=name)
    assert [facts["spawn"] >= 500 for facts in breakdowns(log)] == [True, False, True, True]


async def test_g08_without_a_tool_the_first_tool_took_no_time(served: Served, log: pytest.LogCaptureFixture) -> None:
    await served.say("hello", conversation="x")
    await served.say("!sleep 0.3\n!call nothing {}\n!sleep 0.1", conversation="x")
    plain, called = breakdowns(log)
    assert plain["first_tool"] == 0
    assert called["first_tool"] >= 300
    assert called["first_tool"] + called["generation"] >= 400


async def test_g10_what_one_turn_waited_for_is_never_told_of_another(
    tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    settings = {"pool__enabled": False, "pool__max_processes": 16}
    async with serving(tmp_path / "data", "--slow-session-new", "0.2", **settings) as served:
        warm = (await served.ask("hello", conversation="warm")).headers[SESSION]
        log.clear()
        for number in range(10):
            await asyncio.gather(
                served.say("hello", conversation=f"cold{number}"), served.say("hello", conversation="warm")
            )
        facts = breakdowns(log)
    assert len(facts) == 20
    assert [each["session_new"] >= 200 for each in facts] == [each["session_id"] != warm for each in facts]
    assert all(each["session_new"] + each["spawn"] == 0 for each in facts if each["session_id"] == warm)


async def test_g11_failed_and_cancelled_turns_leave_one_record_each(
    served: Served, log: pytest.LogCaptureFixture
) -> None:
    assert (await served.ask("said\n!die 3", conversation="a")).json()["status"] == "failed"
    held = (await served.ask("!sleep 60", conversation="b", background=True)).json()
    await eventually(lambda: "!sleep 60" in served.prompts(), "the turn runs")
    await served.http.post(f"/v1/responses/{held['id']}/cancel")
    assert len(breakdowns(log)) == 2


async def test_e23_a_drain_lets_running_turns_end(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        running = asyncio.create_task(served.ask("!sleep 0.4\ndone"))
        await eventually(lambda: bool(served.prompts()), "the turn runs")
        await served.gateway.sessions.drain(10)
        assert text_of((await running).json()) == "echo: done"
        refused = await served.ask("hello")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
        assert served.gateway.pool.snapshot().core is not None


@pytest.mark.parametrize("pooled", [True, False])
async def test_a16_seats_between_turns_make_way_for_a_turn_that_can_get_none(tmp_path: Path, pooled: bool) -> None:
    folders = [tmp_path / f"place{number}" for number in range(6)]
    for folder in folders:
        folder.mkdir()
    settings = {"pool__enabled": pooled, "pool__max_processes": 2, "pool__claim_deadline": 20.0}
    async with serving(tmp_path / "data", **settings) as served:
        for folder in folders:
            assert await served.say("hello", conversation=folder.name, metadata={"cwd": str(folder)}) == "echo: hello"
        assert await served.say("!recall", conversation=folders[0].name) == "hello"


async def test_a16_no_other_keys_seat_is_given_up_for_a_key_that_is_full(tmp_path: Path) -> None:
    alone = {"command": command_line([]), "models": ["alone"], "approval": "ask"}
    settings = {"providers.acp": alone, "pool__max_processes_per_key": 1, "pool__claim_deadline": 20.0}
    async with serving(tmp_path / "data", **settings) as served:
        await served.say("hello", conversation="elsewhere")
        for name in "ab":
            assert await served.say("hello", conversation=name, model="acp/alone") == "echo: hello"
        assert await served.say("!recall", conversation="a", model="acp/alone") == "hello"
        kept = [lease.key.key.provider for lease in served.gateway.pool.snapshot().core.leases]
        assert sorted(kept) == ["acp", "demo"]
