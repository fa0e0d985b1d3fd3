"""Streams that are read again after the gateway that made them is gone."""

import json
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.turns.test_client_tools import TOOLS
from tests.support.openai_oracle import judge_stream
from tests.support.serve_command import command
from tests.support.served import Served, events_of, serving

RICH = "!think one moment\nbefore\n!stream 20\n!call no_such_tool {}\nafter"
CALLING = "before\n!stream 3\n!call get_weather {}"


async def again(served: Served, response_id: str, after: int = -1) -> list[dict[str, Any]]:
    params = {"stream": "true", "starting_after": str(after)}
    answer = await served.http.get(f"/v1/responses/{response_id}", params=params)
    assert answer.status_code == 200, answer.text
    return events_of(answer.text)


@pytest.mark.parametrize("text", [RICH, CALLING, "!ask it", "!exit 3", "x"])
@pytest.mark.parametrize("background", [False, True])
async def test_a_stream_is_replayed_event_for_event_after_a_restart(
    tmp_path: Path, text: str, background: bool
) -> None:
    async with serving(tmp_path / "data", pool__permissions="ask") as served:
        live = await served.stream(text, tools=TOOLS, background=background)
        judge_numbers(live)
        response_id = live[-1]["response"]["id"]
    async with serving(tmp_path / "data") as served:
        assert await again(served, response_id) == live
        middle = len(live) // 2
        assert await again(served, response_id, middle) == live[middle + 1 :]
        assert await again(served, response_id, len(live) - 1) == []
        read = (await served.http.get(f"/v1/responses/{response_id}")).json()
        assert read == live[-1]["response"]


def judge_numbers(events: list[dict[str, Any]]) -> None:
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


async def test_a_response_that_was_never_streamed_is_one_piece_for_each_item(served: Served) -> None:
    whole = (await served.ask(RICH)).json()
    events = await again(served, whole["id"])
    judge_stream(events)
    assert events[-1]["response"] == whole


async def test_a_stream_of_nobody_or_of_one_that_is_being_made_is_told_so(served: Served) -> None:
    answer = await served.http.get("/v1/responses/resp_no", params={"stream": "true"})
    assert answer.status_code == 404
    wrong = await served.http.get("/v1/responses/resp_no", params={"stream": "true", "starting_after": "x"})
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "starting_after")


def test_z3_a_client_of_a_killed_gateway_gets_the_end_under_the_next_number(tmp_path: Path) -> None:
    body = {"model": "demo", "input": "begun\n!stream 5\n!sleep 60", "stream": True}
    seen: list[dict[str, Any]] = []
    with (
        command(tmp_path) as running,
        running.http() as http,
        http.stream("POST", "/v1/responses", json=body) as answer,
    ):
        lines = answer.iter_lines()  # held: an iterator that is dropped hangs up, and the turn would end by that
        for line in lines:
            if line.startswith("data: "):
                seen.append(json.loads(line[6:]))
                if "t4" in str(seen[-1].get("delta")):
                    break
        running.end(signal.SIGKILL)
    response_id = seen[0]["response"]["id"]
    with command(tmp_path) as running, running.http() as http:
        rest = read_rest(http, response_id, seen[-1]["sequence_number"])
        assert [event["type"] for event in rest] == ["response.incomplete"]
        assert rest[0]["sequence_number"] == seen[-1]["sequence_number"] + 1


def read_rest(http: httpx.Client, response_id: str, after: int) -> list[dict[str, Any]]:
    params = {"stream": "true", "starting_after": str(after)}
    return events_of(http.get(f"/v1/responses/{response_id}", params=params).text)
