"""/metrics of a real gateway: it agrees with what the agents recorded, and shows itself to nobody else."""

import asyncio
import json
import threading
from pathlib import Path

import httpx
import pytest

from tests.gateway.turns.test_breakdowns import VARIED, place
from tests.support.breakdowns import breakdowns
from tests.support.memory import Prov, making
from tests.support.scrape import OPENMETRICS, read, scrape
from tests.support.served import Served, serving
from tests.support.waiting import eventually, soon, within

TOKEN, KEY = "a-token-for-prometheus", "sk-the-key-of-a-person"


def junk_lines(served: Served) -> int:
    """What the agents recorded to have said that is no message to anybody."""
    said = [json.loads(line) for line in served.record.read_text().splitlines()]
    frames = [line.get("frame") for line in said if line["event"] == "out"]
    return sum(1 for frame in frames if not isinstance(frame, dict) or frame.get("id") == 999999999)


async def test_g09_a_turn_that_fell_back_says_so(tmp_path: Path) -> None:
    state = tmp_path / "starts"
    async with serving(tmp_path / "data", "--fail-first-starts", "1", "--fail-state", str(state)) as served:
        with breakdowns() as written:
            made = (await served.ask("hello")).json()
        record = written.of(made["id"])
        told = await scrape(served)
    assert (record.transport, record.from_pool, record.warmth) == ("agent", False, "fallback")
    assert told.total("ostler_turns_total", transport="agent", outcome="completed") == 1
    assert told.total("ostler_pool_fallbacks_total") == 1
    assert told.total("ostler_pool_claims_total", warmth="fallback") == 1
    assert told.total("ostler_pool_starts_total", outcome="failed", phase="handshake") == 1


async def test_g12_the_metrics_agree_with_the_record_of_the_agents(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", **VARIED) as served:
        one, two = place(tmp_path, "one"), place(tmp_path, "two")
        await asyncio.gather(*(served.say(f"{n}", metadata={"cwd": one}, conversation=f"c{n % 3}") for n in range(9)))
        await served.say("words\n!junk", metadata={"cwd": two})
        late = (await served.ask("!late", background=True, conversation="late")).json()
        await eventually(lambda: any("!late" in text for text in served.prompts()), "the agent is asked")
        await served.http.post(f"/v1/responses/{late['id']}/cancel")
        await served.ask("!die 3", metadata={"cwd": two})
        assert await served.say("after", conversation="late") == "echo: after"
        # The one that died is replaced; a start that is under way is in the record already, and not counted yet.
        await eventually(lambda: served.gateway.pool.snapshot().core.census.starting == 0, "nothing is being started")
        starts = served.starts()
        told = await scrape(served)
        prompts = len(served.prompts())
        junk = junk_lines(served)
    assert told.total("ostler_pool_starts_total") == starts
    assert told.total("ostler_turns_total", transport="pool") == prompts == 13
    assert told.total("ostler_turns_total", outcome="cancelled") == 1
    assert told.total("ostler_turns_total", outcome="failed") == told.total("ostler_turn_failures_total") == 1
    assert told.total("ostler_pool_claims_total") == prompts
    assert told.total("ostler_pool_dropped_updates_total", kind="late") == 3
    assert told.total("ostler_pool_dropped_updates_total", kind="junk") == junk == 6
    assert told.total("ostler_pool_deaths_total") == 1
    assert told.total("ostler_turn_phase_seconds_count", phase="total") == prompts
    assert told.total("ostler_store_batch_size_sum") == told.total("ostler_store_write_seconds_count") > 0


async def test_both_formats_are_read_by_the_reference_parser_and_say_the_same(served: Served) -> None:
    made = (await served.ask("!call nothing {}")).json()
    plain = read((await served.http.get("/metrics")).text)
    answer = await served.http.get("/metrics", headers=OPENMETRICS)
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    modern = read(answer.text, openmetrics=True)
    assert modern.names() >= plain.names() - {name for name in plain.names() if name.endswith("_created")}
    assert plain.kinds["ostler_turns"] == modern.kinds["ostler_turns"] == "counter"
    assert f'# {{response_id="{made["id"]}"}}' in answer.text


async def test_threads_that_hang_on_a_dead_disk_do_not_hide_the_metrics(served: Served) -> None:
    await served.ask("hello")
    await scrape(served)
    alive, loop = threading.Event(), asyncio.get_running_loop()
    hung = [loop.run_in_executor(None, alive.wait) for _ in range(64)]
    try:
        found = await soon(asyncio.gather(*(scrape(served) for _ in range(3))), "all are answered")
    finally:
        alive.set()
        await asyncio.gather(*hung)
    assert [each.total("ostler_turns_total", outcome="completed") for each in found] == [1, 1, 1]


async def test_labels_hold_no_session_no_path_and_no_word_of_any_length(served: Served) -> None:
    made = await served.ask("hello", conversation="a-name-of-mine")
    assert (await served.ask("hi", model=f"demo/{'x' * 200}")).status_code == 200
    await served.http.get("/v1/conversations/never-made")
    text = (await served.http.get("/metrics")).text
    told = read(text)
    known = {dict(labels).get("model") for name, labels in told.samples if name == "ostler_turn_tokens_total"}
    assert known == {"demo", "other"}
    assert str(served.folder) not in text
    assert "a-name-of-mine" not in text
    assert made.headers["x-ostler-session-id"] not in text
    assert told.total("ostler_http_requests_total", route="/v1/conversations/{slug:path}", status="404") == 1


async def test_with_keys_the_metrics_need_one_and_with_a_token_only_the_token(tmp_path: Path) -> None:
    def status(answer: httpx.Response) -> int:
        return answer.status_code

    key, token = {"authorization": f"Bearer {KEY}"}, {"authorization": f"Bearer {TOKEN}"}
    async with serving(tmp_path / "keys", auth__api_key=KEY) as served:
        found = [status(await served.http.get("/metrics", headers=each)) for each in ({}, token, key)]
        assert found == [401, 401, 200]
    async with serving(tmp_path / "token", auth__api_key=KEY, metrics__token=TOKEN) as served:
        found = [status(await served.http.get("/metrics", headers=each)) for each in ({}, key, token)]
        assert found == [401, 401, 200]
        assert status(await served.http.get("/v1/models", headers=token)) == 401
        assert status(await served.http.get("/v1/models", headers=key)) == 200
    async with serving(tmp_path / "off", metrics__enabled=False) as served:
        assert status(await served.http.get("/metrics")) == 404


@pytest.mark.parametrize(("sent", "kept"), [("abc-1", True), ("a b", False), ("x" * 129, False), ("", False)])
async def test_a_request_is_named_by_its_client_if_the_name_is_harmless(served: Served, sent: str, kept: bool) -> None:
    answer = await served.http.get("/healthz", headers={"x-request-id": sent})
    name = answer.headers["x-request-id"]
    assert (name == sent) is kept
    assert kept or name.startswith("req_")


async def test_a_client_that_leaves_is_counted_and_its_stream_is_over(served: Served) -> None:
    body = {"model": "demo", "input": "first\n!sleep 60", "stream": True}
    async with served.http.stream("POST", "/v1/responses", json=body) as answer:
        pieces = answer.aiter_bytes()
        await anext(pieces)
        assert (await scrape(served)).total("ostler_http_streams") == 1
    await eventually(lambda: served.gateway.sessions.running == 0, "the turn is stopped")
    told = await scrape(served)
    assert told.total("ostler_http_streams") == 0
    assert told.total("ostler_http_disconnects_total", route="/v1/responses") == 1


async def test_w46_health_is_red_within_30_s_when_every_fresh_start_fails_although_an_old_process_serves(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path / "data", pool__fallback=False, **VARIED) as served:
        old = place(tmp_path, "old")
        assert await served.say("hello", metadata={"cwd": old}, conversation="old") == "echo: hello"
        assert (await served.http.get("/readyz")).status_code == 200
        (tmp_path / "places" / "broken").touch()
        for name in ("a", "b", "c"):
            failed = await served.ask("hello", metadata={"cwd": place(tmp_path, name)})
            assert failed.status_code >= 500, failed.text
            assert await served.say("again", conversation="old") == "echo: again"
        assert (await served.http.get("/readyz")).status_code == 503
        assert (await served.http.get("/healthz")).status_code == 200
        told = await scrape(served)
        assert told.total("ostler_ready") == 0
        assert told.total("ostler_pool_start_failures") >= 1
        (tmp_path / "places" / "broken").unlink()
        assert await served.say("fresh", metadata={"cwd": place(tmp_path, "d")}) == "echo: fresh"
        assert (await served.http.get("/readyz")).status_code == 200


HANGING, FAILING = ("--delay-initialize 60", "--slow-session-new 60"), ("--refuse-initialize", "--exit-after 0")


@pytest.mark.parametrize("flags", [*HANGING, *FAILING])
async def test_w46_health_is_red_however_fresh_starts_fail(flags: str, tmp_path: Path) -> None:
    """They hang, in either step, they are refused, or they die as soon as somebody wants them."""
    settings = {"pool__start_late_after": 2.0, **VARIED}
    async with serving(tmp_path / "data", **settings) as served:
        old = place(tmp_path, "old")
        assert await served.say("hello", metadata={"cwd": old}, conversation="old") == "echo: hello"
        asked = [
            asyncio.create_task(served.ask("hello", metadata={"cwd": place(tmp_path, name, flags)})) for name in "abc"
        ]

        async def red() -> bool:
            assert await served.say("again", conversation="old") == "echo: again"
            return (await served.http.get("/readyz")).status_code == 503

        # A start that is slow on a busy machine makes it red too, but not for long.
        async with within(300, "health turns red, and an older process that serves does not mend it"):
            while not all([await red() for _ in range(4)]):
                pass
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


async def test_memory_is_counted_by_its_provider(tmp_path: Path) -> None:
    good, broken = Prov("good", "a cat"), Prov("broken")
    broken.fail_in("prefetch", "sync_turn")
    memory = {"good": making(good), "broken": making(broken)}
    async with serving(tmp_path / "data", memory=memory) as served:
        await served.say("hello")
        await eventually(lambda: good.calls("queue_prefetch") and broken.calls("queue_prefetch"), "both are told")
        await eventually(lambda: not any(served.gateway.memories.undone().values()), "and have done it")
        told = await scrape(served)
    asked = "ostler_memory_prefetch_seconds_count"
    assert (
        told.total(asked, memory="good", outcome="found") == told.total(asked, memory="broken", outcome="failed") == 1
    )
    assert told.total("ostler_memory_calls_total", memory="good", call="sync_turn", outcome="done") == 1
    assert told.total("ostler_memory_calls_total", memory="broken", call="sync_turn", outcome="failed") == 1
    assert told.total("ostler_memory_lag_seconds_count", memory="good") >= 3
    assert told.total("ostler_memory_calls_waiting") == 0
