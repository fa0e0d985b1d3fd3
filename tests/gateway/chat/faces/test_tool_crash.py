"""kill -9 in the middle of turns with tools: the transcript ends at a message, and every call is closed or answered."""

import json
import os
import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from ostler.gateway.config.data_folder import DATABASE
from tests.support.database import look
from tests.support.serve_command import Command, command
from tests.support.served import text_of

CYCLES = int(os.environ.get("OSTLER_KILL_CYCLES", "5"))
TOOLS = [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}]
RESULT = {"type": "function_call_output", "output": "x"}
Row = tuple[str, str, str]


def work(running: Command, first: int, heard: list[int]) -> None:
    """Turns with two calls each, until the gateway is gone."""
    with running.http() as http, suppress(httpx.TransportError):
        for number in range(first, first + 1000):
            body = ask(http, f"turn-{number}\n!call look {{}}\n!call look {{}}")
            heard.append(number)
            while calls := [item for item in body["output"] if item["type"] == "function_call"]:
                results = [{**RESULT, "call_id": call["call_id"]} for call in calls]
                body = ask(http, results)


def ask(http: httpx.Client, given: Any) -> dict[str, Any]:
    answer = http.post("/v1/responses", json={"model": "demo", "input": given, "conversation": "c", "tools": TOOLS})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def rows(folder: Path) -> list[Row]:
    return look(folder / "data" / DATABASE, "select role, text, items from messages where active order by id")


def check(found: list[Row], heard: list[int]) -> None:
    """Each question once and in order; no result without its call before it."""
    numbers = [int(text.partition("\n")[0].removeprefix("turn-")) for role, text, _ in found if role == "user"]
    assert numbers == sorted(set(numbers))
    assert set(heard) <= set(numbers)
    made: set[str] = set()
    answered: set[str] = set()
    for _, _, items in found:
        for item in json.loads(items):
            if item["type"] == "function_call":
                made.add(item["call_id"])
            elif item["type"] == "function_call_output":
                assert item["call_id"] in made - answered
                answered.add(item["call_id"])


@pytest.mark.long
def test_h13_rh7_a_kill_in_a_turn_with_tools_leaves_whole_messages_and_closed_calls(tmp_path: Path) -> None:
    chance, heard, record = random.Random(13), list[int](), tmp_path / "record"
    environ = {"OSTLER_PROVIDERS__DEMO__ARGS": json.dumps(["--record", str(record)])}
    for cycle in range(CYCLES):
        with command(tmp_path, **environ) as running:
            talking = threading.Thread(target=work, args=(running, cycle * 1000, heard))
            talking.start()
            time.sleep(chance.uniform(0.05, 1.0))
            running.end(signal.SIGKILL)
            talking.join(30)
        check(rows(tmp_path), heard)
    known = [text.partition("\n")[0] for role, text, _ in rows(tmp_path) if role == "user"]
    with command(tmp_path, **environ) as running, running.http() as http:
        said = text_of(ask(http, "!recall"))
        assert [line for line in said.splitlines() if line.startswith("turn-")] == known
        running.end()
    assert last_prompt(record).count("called look") == calls_made(tmp_path)
    assert last_prompt(record).count("was never answered") == calls_made(tmp_path) - results_given(tmp_path)


def last_prompt(record: Path) -> str:
    frames = [json.loads(line).get("frame", {}) for line in record.read_text().splitlines()]
    prompts = [frame for frame in frames if frame.get("method") == "session/prompt"]
    return "\n".join(block.get("text", "") for block in prompts[-1]["params"]["prompt"])


def calls_made(folder: Path) -> int:
    return sum(items.count('"function_call"') for _, _, items in rows(folder))


def results_given(folder: Path) -> int:
    return sum(items.count('"function_call_output"') for _, _, items in rows(folder))
