"""Names that clients make up: models, conversations, keys, directories. None is a template, a route or a default."""

import os
import socket
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from prometheus_client import CollectorRegistry

from ostler.gateway.config.errors import ConfigError
from ostler.gateway.config.keys import key_ring
from ostler.gateway.config.settings import AuthSettings, KeySettings
from ostler.gateway.ops.gauges.observers import PoolGauges
from ostler.metrics.instruments import Instruments
from ostler.metrics.registry import MOST, MetricRegistry
from ostler.pool.keys import TransportKey
from ostler.pool.provider import Approval, ProviderNeeds
from ostler.pool.providers.codex_acp import arguments as codex_arguments
from ostler.pool.providers.opencode import READS
from ostler.pool.providers.opencode import arguments as opencode_arguments
from tests.gateway.http.test_door import bearer, is_envelope, keyed
from tests.support.serve_command import command
from tests.support.served import Served, serving

DIGEST = "0" * 64
TEMPLATES = ("x/{file:/etc/passwd}", "x/{env:OPENAI_API_KEY}", "{{file:~/.ssh/id_rsa}}", 'x"},"permission":{"*":"allow')


def test_n34_the_models_that_clients_name_are_counted_by_name_up_to_a_number() -> None:
    registry = CollectorRegistry()
    gauges = PoolGauges(Instruments(MetricRegistry(registry)).pool)
    for number in range(3 * MOST):
        key = TransportKey("demo", f"made up {number}", "/")
        gauges.claimed(key, "cold", "new", 0.0)
        gauges.refused(key, "saturated")
    samples = [sample for family in registry.collect() for sample in family.samples]
    for name in ("ostler_pool_claims_total", "ostler_pool_refusals_total"):
        told = [sample for sample in samples if sample.name == name]
        assert len(told) == len({sample.labels["model"] for sample in told}) == MOST + 1
        assert sum(sample.value for sample in told) == 3 * MOST


@pytest.mark.parametrize("model", TEMPLATES)
@pytest.mark.parametrize("approval", [Approval.ASK, Approval.AUTO])
def test_n35_a_model_is_no_template_and_no_setting_of_opencode(model: str, approval: Approval) -> None:
    import json

    text = opencode_arguments(ProviderNeeds(model, approval)).env["OPENCODE_CONFIG_CONTENT"]
    assert json.loads(text)["model"] == model
    assert json.loads(text)["permission"] == ({"*": "allow"} if approval is Approval.AUTO else {"*": "ask", **READS})
    assert "{file:" not in text
    assert "{env:" not in text


def test_n35_a_model_is_one_toml_string_for_codex() -> None:
    import tomllib

    for model in (*TEMPLATES, 'a"\u00e9\\'):
        option, setting = codex_arguments(ProviderNeeds(model, Approval.ASK)).args[:2]
        assert option == "-c"
        assert tomllib.loads(setting) == {"model": model}


@pytest.mark.parametrize("name", ["", " ", "a\nb", "default"])
def test_n35_a_key_without_a_name_or_with_that_of_another_owner_is_refused(name: str) -> None:
    key = KeySettings(name=name, sha256=DIGEST)
    with pytest.raises(ConfigError, match=r"auth\.keys"):
        key_ring(AuthSettings(api_key="a-key-of-more-than-16-characters", keys=[key]))


def test_n35_a_key_may_be_called_default_where_nobody_else_is() -> None:
    assert key_ring(AuthSettings(keys=[KeySettings(name="default", sha256=DIGEST)])).entries


async def test_n35_a_conversation_that_is_named_like_a_route_is_metered_and_found(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", auth__keys=[keyed(per_minute=8)]) as served:
        body = {"model": "demo", "input": "hi"}
        names = ("x/cancel", "x/items", "x/items/msg_1", "x")
        for name in names:
            made = await served.http.post("/v1/responses", json={**body, "conversation": name}, headers=bearer())
            assert made.status_code == 200
        for name in names:
            path = f"/v1/conversations/{quote(name, safe='')}"
            assert (await served.http.get(path, headers=bearer())).json()["id"] == name
            assert len((await served.http.get(f"{path}/items", headers=bearer())).json()["data"]) == 2
        path = f"/v1/conversations/{quote('x/cancel', safe='')}"
        statuses = [
            (await served.http.post(path, json={"metadata": {}}, headers=bearer())).status_code for _ in range(12)
        ]
        assert {200, 429} == set(statuses)


async def test_n35_a_session_key_with_an_encoded_slash_is_one_name(served: Served) -> None:
    path = f"/v1/sessions/{quote('team/messages', safe='')}"
    assert (await served.http.post(f"{path}/messages", json={"text": "hi"})).status_code == 200
    assert (await served.http.get(path)).json()["key"] == "team/messages"
    assert len((await served.http.get(f"{path}/messages")).json()["data"]) == 2


async def ask(served: Served, **fields: Any) -> httpx.Response:
    body = {"model": "demo", "input": "hi", **fields}
    return await served.http.post("/v1/responses", json=body, headers=bearer())


def plain(answer: httpx.Response, *names: str) -> tuple[int, str]:
    """Status and text, with what the caller said itself left out."""
    text = answer.text
    for name in names:
        text = text.replace(name, "NAME")
    return answer.status_code, text


async def test_n39_what_lies_outside_the_roots_of_a_key_is_refused_alike_whether_it_is_there(tmp_path: Path) -> None:
    root, inside = tmp_path / "root", tmp_path / "root" / "inside"
    inside.mkdir(parents=True)
    (tmp_path / "file").touch()
    (root / "way-out").symlink_to(tmp_path)
    outside = [str(tmp_path), str(tmp_path / "none"), str(tmp_path / "file"), str(root / "way-out" / "none")]
    outside += [str(root / ".." / "none"), "/etc/none", "/proc/1/cwd/none"]
    async with serving(tmp_path / "data", auth__keys=[keyed(roots=[str(root)])]) as served:
        answers = [plain(await ask(served, metadata={"cwd": cwd}), cwd) for cwd in outside]
        assert len(set(answers)) == 1, answers
        assert answers[0][0] == 403
        assert (await ask(served, metadata={"cwd": str(inside)})).status_code == 200
        missing = await ask(served, metadata={"cwd": str(root / "none")})
        assert (missing.status_code, "does not exist" in missing.text) == (400, True)
    async with serving(tmp_path / "more", pool__roots=[str(root)]) as served:
        answers = [plain(await ask(served, metadata={"cwd": cwd}), cwd) for cwd in outside]
        assert len(set(answers)) == 1, answers
        assert (answers[0][0], "outside the allowed roots" in answers[0][1]) == (400, True)


async def test_n39_a_model_that_a_key_may_not_use_is_refused_as_one_that_there_is_not(tmp_path: Path) -> None:
    names = {"secret": "demo/secret"}
    async with serving(tmp_path / "data", auth__keys=[keyed(models=["demo/small"])], models=names) as served:
        asked = ("demo/large", "secret", "nobody/x", "gemini")
        answers = [plain(await ask(served, model=name), name) for name in asked]
        assert len(set(answers)) == 1, answers
        assert answers[0][0] == 403
        looks = [
            plain(await served.http.get(f"/v1/models/{name}", headers=bearer()), name)
            for name in ("secret", "nobody/x")
        ]
        assert len(set(looks)) == 1, looks
        assert (looks[0][0], "demo/secret" in looks[0][1]) == (404, False)


async def test_n38_a_conversation_is_not_continued_where_its_directory_was_swapped(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "work", outside):
        folder.mkdir(parents=True)
    async with serving(tmp_path / "data", pool__roots=[str(root)]) as served:
        body = {"model": "demo", "input": "hi", "conversation": "x", "metadata": {"cwd": str(root / "work")}}
        assert (await served.http.post("/v1/responses", json=body)).status_code == 200
        os.rename(root / "work", root / "moved")  # noqa: PTH104 - the test's own folders; nothing else runs
        os.symlink(outside, root / "work")  # noqa: PTH211 - the same
        for more in ({"conversation": "x"}, {"conversation": "y", "metadata": {"cwd": str(root / "work")}}):
            late = await served.http.post("/v1/responses", json={"model": "demo", "input": "hi", **more})
            text = late.text
            assert ("invalid_cwd" in text) or (late.json().get("status") == "failed"), text
        assert len(served.prompts()) == 1


JUNK = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/9.9\r\n\r\n",
    b"nonsense\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
    b"GET /v1/sessions/%0a HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"POST /v1/sessions/a..b/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}",
    b"GET /v1/responses/no%0aFAKE HTTP/1.1\r\nhost: localhost\r\n\r\n",
)


def send(base: str, junk: bytes) -> None:
    host, _, port = base.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as line:
        line.sendall(junk)
        line.shutdown(socket.SHUT_WR)
        while line.recv(65536):
            pass


def test_n40_junk_of_clients_is_not_in_the_log(tmp_path: Path) -> None:
    with command(tmp_path) as running, running.http() as http:
        assert http.get("/healthz").status_code == 200
        for junk in JUNK * 5:
            send(running.base, junk)
        output = [{"type": "function_call_output", "call_id": "call_no", "output": "x"}]
        assert is_envelope(http.post("/v1/responses", json={"model": "demo", "input": output}))
        assert running.end() == 0
        written = [line for line in running.logged if line.get("level") in ("warning", "error")]
    assert written == []
