"""A real browser on a page that another local program serves: it runs no turn on a gateway without keys."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.support.browser import Screens
from tests.support.served import Served, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"
TRY = """async ([base, type, mode, path, body]) => {
  try {
    const headers = type ? {"content-type": type} : {};
    const answer = await fetch(base + path, {method: "POST", mode, headers, body: type ? body : new Blob([body])});
    return answer.type === "opaque" ? "opaque" : answer.status;
  } catch { return "refused by the browser"; }
}"""
FORM = """([base, body]) => {
  const form = document.createElement("form");
  form.method = "POST"; form.enctype = "text/plain"; form.action = base + "/v1/responses";
  const field = document.createElement("input");
  field.name = body.slice(0, -2); field.value = body.slice(-2);
  form.append(field); document.body.append(form); form.submit();
}"""
TURN = '{"model": "demo", "input": "owned", "x": ""}'
TRIES = [
    ("text/plain", "no-cors", "/v1/responses", TURN),
    ("", "no-cors", "/v1/responses", TURN),
    ("text/plain", "cors", "/v1/responses", TURN),
    ("application/json", "cors", "/v1/responses", TURN),
    ("text/plain", "no-cors", "/v1/sessions/web/messages", '{"text": "owned"}'),
    ("text/plain", "no-cors", "/admin/pool/pause", "{}"),
]


@asynccontextmanager
async def page_elsewhere() -> AsyncIterator[str]:
    """Another program on this machine, with a page."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        page = b"<!doctype html><title>elsewhere</title><body>elsewhere"
        writer.write(HEAD % (len(page), page))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://localhost:{server.sockets[0].getsockname()[1]}"


async def test_n33_a_page_of_another_port_runs_no_turn_in_a_real_browser(served: Served, chrome: Screens) -> None:
    base = served.base.replace("127.0.0.1", "localhost")
    async with page_elsewhere() as url:
        page = (await chrome.open(url)).page
        heard = [await page.evaluate(TRY, [base, *each]) for each in TRIES]
        assert set(heard) <= {"opaque", "refused by the browser"}
        await page.evaluate(FORM, [base, TURN])
        await expect(page.locator("body")).to_contain_text("may not use this gateway")
    assert served.prompts() == []
    assert served.rows("select count(*) from messages") == [(0,)]
    assert not served.gateway.pool.snapshot().core.paused


async def test_n33_a_sandboxed_page_runs_no_turn_in_a_real_browser(served: Served, chrome: Screens) -> None:
    page = (await chrome.open("data:text/html,<title>null</title>")).page  # its origin is `null`
    for each in TRIES:
        assert await page.evaluate(TRY, [served.base, *each]) in ("opaque", "refused by the browser")
    assert served.prompts() == []


async def test_n33_our_own_page_and_a_configured_one_run_turns_in_a_real_browser(
    tmp_path: Path, chrome: Screens
) -> None:
    async with page_elsewhere() as url, serving(tmp_path / "data", auth__cors_origins=[url]) as served:
        theirs = (await chrome.open(url)).page
        body = '{"model": "demo", "input": "theirs"}'
        assert await theirs.evaluate(TRY, [served.base, "application/json", "cors", "/v1/responses", body]) == 200
        for host in ("127.0.0.1", "localhost"):
            base = served.base.replace("127.0.0.1", host)
            ours = (await chrome.open(base + "/chat")).page
            await ours.get_by_label("Message").fill("ours")
            await ours.keyboard.press("Enter")
            await expect(ours.get_by_role("log")).to_contain_text("echo: ours")
    assert served.prompts()[0] == "theirs"
