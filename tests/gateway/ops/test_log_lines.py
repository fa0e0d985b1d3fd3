"""The log of a real gateway: one breakdown for each turn, with the request that it belongs to, and never a secret."""

import json
from pathlib import Path
from typing import Any

import httpx

from tests.support.serve_command import command

KEY, TOKEN = "sk-the-key-of-a-person", "a-token-for-prometheus"
NAMES = ("spawn", "bridge", "session_new", "first_tool", "generation")


def ask(http: httpx.Client, name: str, path: str, **body: Any) -> None:
    """A request of this name, whose answer is read whole."""
    answer = http.post(path, json={"model": "demo", **body}, headers={"x-request-id": name})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-request-id"] == name


def test_g06_twenty_turns_over_all_ways_in_leave_twenty_records_that_name_their_requests(tmp_path: Path) -> None:
    with command(tmp_path, OSTLER_API_KEY=KEY, OSTLER_METRICS__TOKEN=TOKEN) as running, running.http() as http:
        http.headers["authorization"] = f"Bearer {KEY}"
        for number in range(5):
            conversation = f"c{number % 2}"
            ask(http, f"whole-{number}", "/v1/responses", input="hi", conversation=conversation)
            ask(http, f"streamed-{number}", "/v1/responses", input="hi", conversation=conversation, stream=True)
            messages = [{"role": "user", "content": f"hello {number}"}]
            ask(http, f"chat-{number}", "/v1/chat/completions", messages=messages)
            ask(http, f"chat-streamed-{number}", "/v1/chat/completions", messages=messages, stream=True)
        http.post("/v1/responses", json={"model": "nobody/x", "input": "never reaches an agent"})
        scraped = http.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).text
        assert running.end() == 0
        records = running.events("cold_start_breakdown")
    ways = ("whole", "streamed", "chat", "chat-streamed")
    assert {record["request_id"] for record in records} == {f"{way}-{n}" for way in ways for n in range(5)}
    assert len(records) == len({record["turn_id"] for record in records}) == 20
    assert all(isinstance(record[name], float) and record[name] >= 0 for record in records for name in NAMES)
    assert {(record["transport"], record["transport_from_pool"]) for record in records} == {("pool", True)}
    assert all(record["session_id"].startswith("sess_") for record in records)
    assert [secret for secret in (KEY, TOKEN) if secret in json.dumps([running.logged, scraped])] == []
