"""Group F over HTTP: many sessions on one process, and nothing of one in another."""

import asyncio
from pathlib import Path

import pytest

from tests.gateway.turns.test_client_tools import CALL, TOOLS, calls_of, output
from tests.support.served import SESSION, Served, serving, text_of
from tests.support.waiting import eventually


async def test_f17_a_hundred_interleaved_turns_of_two_sessions_never_mix(served: Served) -> None:
    async def talk(name: str) -> list[str]:
        said = [await served.say(f"{name} says {number}", conversation=name) for number in range(50)]
        return [*said, await served.say("!recall", conversation=name)]

    heard = await asyncio.gather(talk("alice"), talk("bob"))
    for name, said in zip(("alice", "bob"), heard, strict=True):
        assert said[:50] == [f"echo: {name} says {number}" for number in range(50)]
        assert said[50].splitlines() == [f"{name} says {number}" for number in range(50)]
    assert (served.starts(), served.seats()) == (1, 2)
    asked: dict[str, set[str]] = {}
    for frame in served.frames("session/prompt"):
        text = frame["params"]["prompt"][-1]["text"]
        if not text.startswith("!"):
            asked.setdefault(frame["params"]["sessionId"], set()).add(text.split()[0])
    assert sorted(asked.values(), key=str) == [{"alice"}, {"bob"}]


async def test_f18_tools_and_instructions_are_told_to_each_session_once(served: Served) -> None:
    async def turn(name: str, number: int) -> str:
        tools = TOOLS[number : number + 1]
        said = await served.say("!tools", conversation=name, tools=tools, instructions=f"speak as {name}")
        return said.splitlines()[-1]

    for _ in range(2):
        assert await asyncio.gather(turn("a", 0), turn("b", 1)) == ["get_weather", "get_time"]
    prompts = served.prompts()
    assert [sum(f"speak as {name}" in prompt for prompt in prompts) for name in "ab"] == [1, 1]
    assert served.seats() == 2


async def test_f20_sessions_that_are_let_go_take_nothing_of_others(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", gateway__seats_max=1) as served:
        first = (await served.ask(CALL, tools=TOOLS, conversation="kept")).json()
        for number in range(5):
            assert await served.say("!tools", tools=TOOLS[:1], conversation=f"other{number}") == "get_weather"
        # A turn that waits for its client is in mid-turn: its seat is nobody else's to take.
        done = await served.ask([output(calls_of(first)[0], "sunny")], tools=TOOLS, conversation="kept")
        assert text_of(done.json()) == "sunny"
        assert served.starts() == 1


async def test_f21_a_cancel_ends_its_own_turn_only(served: Served) -> None:
    held = (await served.ask("!sleep 60", conversation="a", background=True)).json()
    other = asyncio.create_task(served.ask("!sleep 0.5\ndone", conversation="b"))
    await eventually(lambda: len(served.prompts()) == 2, "both turns run on the one process")
    cancelled = await served.http.post(f"/v1/responses/{held['id']}/cancel")
    assert cancelled.json()["status"] == "cancelled"
    assert text_of((await other).json()) == "echo: done"
    told = [frame["params"]["sessionId"] for frame in served.frames("session/cancel")]
    asked = {
        frame["params"]["prompt"][-1]["text"]: frame["params"]["sessionId"] for frame in served.frames("session/prompt")
    }
    assert told == [asked["!sleep 60"]]
    assert served.starts() == 1


async def test_f23_what_an_agent_says_after_its_turn_is_in_no_answer(served: Served) -> None:
    held = (await served.ask("!late", conversation="a", background=True)).json()
    query = "select count(*) from messages"
    await eventually(lambda: bool(served.prompts()), "the turn runs")
    stream = f"/v1/responses/{held['id']}"
    async with served.http.stream("GET", stream, params={"stream": "true"}) as answer:
        async for line in answer.aiter_lines():
            if "waiting" in line:
                break
    assert (await served.http.post(f"{stream}/cancel")).json()["status"] == "cancelled"
    answers = await asyncio.gather(*(served.say("hello", conversation=name) for name in "ab"))
    assert answers == ["echo: hello"] * 2
    assert served.rows(query) == [(6,)]
    assert served.rows("select count(*) from messages where text like '%late%' and role = 'assistant'") == [(0,)]


@pytest.mark.parametrize("flags", [(), ("--no-close",)])
async def test_f24_sessions_left_in_a_process_are_closed_or_counted(tmp_path: Path, flags: tuple[str, ...]) -> None:
    async with serving(tmp_path / "data", *flags, gateway__seats_max=2) as served:
        for number in range(12):
            assert await served.say("hello", conversation=f"c{number}") == "echo: hello"

        def process() -> tuple[int, int]:
            (view,) = served.gateway.pool.snapshot().processes
            return view.sessions, view.leaked

        opened = {frame["params"]["sessionId"] for frame in served.frames("session/prompt")}
        assert len(opened) == 12
        if flags:
            await eventually(lambda: process()[1] == 10, "each session that cannot be closed is counted")
        else:
            await eventually(lambda: len(served.frames("session/close")) >= 10, "sessions are closed in the agent")
            assert process()[1] == 0
        assert process()[0] <= 2 + 8  # the seats between turns, and those the pool opens ahead


async def test_f25_without_the_pool_tools_and_errors_are_the_same(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__enabled=False) as served:
        firsts = await asyncio.gather(
            *(
                served.ask(f"!tools\n{CALL}", tools=TOOLS[: 2 - place], conversation=name)
                for place, name in enumerate("ab")
            )
        )
        assert [text_of(first.json()).split() for first in firsts] == [["get_time", "get_weather"], ["get_weather"]]
        for name, first in zip("ab", firsts, strict=True):
            done = await served.ask([output(calls_of(first.json())[0], name)], conversation=name)
            assert text_of(done.json()).strip() == name
            assert done.headers[SESSION] == first.headers[SESSION]
        unknown = await served.say("!call get_nothing {}", tools=TOOLS, conversation="a")
        assert "error" in unknown
        assert served.starts() >= 2
