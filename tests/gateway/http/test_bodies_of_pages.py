"""What a body may be declared as on a gateway without keys."""

from pathlib import Path

import httpx
import pytest

from tests.gateway.http.test_door import bearer, is_envelope, keyed
from tests.support.served import Served, serving

BODY = b'{"model": "demo", "input": "hi"}'


async def post(served: Served, **headers: str) -> httpx.Response:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return await served.http.post("/v1/responses", content=BODY, headers=given)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
async def test_n33_a_body_that_any_page_may_send_is_refused_and_told_what_to_send(served: Served, kind: str) -> None:
    answer = await post(served, content_type=kind)
    assert (answer.status_code, is_envelope(answer)) == (415, True)
    assert "content-type: application/json" in answer.json()["error"]["message"]
    assert served.prompts() == []


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/ld+json"])
async def test_n33_a_program_that_declares_json_is_served(served: Served, kind: str) -> None:
    assert (await post(served, content_type=kind)).status_code == 200


async def test_n33_a_program_that_declares_nothing_is_served_and_a_browser_is_not(served: Served) -> None:
    assert (await post(served)).status_code == 200
    own = {"origin": served.base, "sec_fetch_site": "same-origin"}
    assert (await post(served, **own)).status_code == 415
    assert (await post(served, **own, content_type="application/json")).status_code == 200


async def test_n33_with_keys_a_body_need_not_be_declared(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", auth__keys=[keyed()]) as served:
        assert (await post(served, **bearer(), content_type="application/x-www-form-urlencoded")).status_code == 200
