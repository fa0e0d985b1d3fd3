"""The status page in a real browser, over a real gateway with real turns: what is seen, what can be done, by whom."""

import asyncio
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import expect

from ostler.pool.core.values import SlotState
from tests.support.browser import PHONE, WIDE, Screens
from tests.support.served import Served, serving
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
OPERATOR, USER = "operator-key-0123456789", "client-key-0123456789abc"


def keyed(*keys: tuple[str, str, bool]) -> list[dict[str, Any]]:
    """`auth.keys` for these."""
    return [
        {"name": name, "sha256": hashlib.sha256(key.encode()).hexdigest(), "admin": admin} for name, key, admin in keys
    ]


async def some_turns(served: Served) -> None:
    """A cold one, warm ones, one with a tool, and one that fails with a last word on stderr."""
    for text in ("one", "two", "!sleep 0.05\nthree"):
        await served.say(text)
    await served.ask("!die 3")


def ready(served: Served) -> list[int | None]:
    """The pids of the processes that serve: the one that died is on the books until it is reaped."""
    snapshot = served.gateway.pool.snapshot()
    serving = {slot.slot for key in snapshot.core.keys for slot in key.slots if slot.state is SlotState.READY}
    return [one.pid for one in snapshot.processes if one.slot in serving and one.lost is None]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, PHONE])
async def test_the_page_shows_what_runs_and_what_happened(
    served: Served, chrome: Screens, width: int, scheme: str
) -> None:
    await some_turns(served)
    window = await chrome.open(served.base + "/", width=width, scheme=scheme)
    await window.live()
    page = window.page
    await eventually(lambda: ready(served), "the successor of the one that died")
    (pid,) = ready(served)
    await expect(page.get_by_role("heading", name="demo/demo")).to_be_visible()
    await expect(page.get_by_role("cell", name=re.compile(f"pid {pid}"))).to_be_visible()
    turns = page.get_by_role("table", name="The last turns").get_by_role("row")
    await expect(turns).to_have_count(1 + 4)
    await expect(turns.nth(4)).to_contain_text("cold")
    await expect(turns.nth(1)).to_contain_text("failed")
    bar = turns.nth(4).get_by_role("img")
    assert "spawn" in (await bar.get_attribute("aria-label") or "")
    await page.get_by_text("Last lines of stderr").first.click()
    await expect(page.locator("pre").first).to_contain_text("told to die with exit code 3")
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await window.shoot(f"status-{scheme}-{width}")
    assert window.complaints == []


async def test_it_lives_without_losing_focus_or_what_is_open(served: Served, chrome: Screens) -> None:
    await served.say("hello")
    window = await chrome.open(served.base + "/")
    await window.live()
    page = window.page
    await page.get_by_text("Kill").first.click()
    sure = page.get_by_role("button", name=re.compile("Yes, kill"))
    await sure.focus()
    for text in ("a", "b", "c"):
        await served.say(text)
    await expect(page.get_by_role("table", name="The last turns").get_by_role("row")).to_have_count(1 + 4)
    await expect(sure).to_be_focused()
    assert window.complaints == []


async def test_orders_by_keyboard_alone(served: Served, chrome: Screens) -> None:
    await served.say("hello")
    ((slot, pid),) = [(one.slot, one.pid) for one in served.gateway.pool.snapshot().processes]
    window = await chrome.open(served.base + "/")
    await window.live()
    page = window.page
    for _ in range(40):
        await page.keyboard.press("Tab")
        if await page.evaluate("document.activeElement.textContent.startsWith('Kill')"):
            break
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status").first).to_contain_text(f"process {slot} was killed")
    await eventually(
        lambda: pid not in [one.pid for one in served.gateway.pool.snapshot().processes], "the process being gone"
    )
    await expect(page.locator("summary:focus")).to_have_count(1)
    assert window.complaints == []


async def test_the_keyboard_keeps_its_place_when_what_it_stood_on_goes(served: Served, chrome: Screens) -> None:
    await served.say("hello")
    ((slot, pid),) = [(one.slot, one.pid) for one in served.gateway.pool.snapshot().processes]
    window = await chrome.open(served.base + "/")
    await window.live()
    kill = window.page.get_by_text("Kill").first
    await kill.focus()
    await expect(kill).to_be_focused()
    served.gateway.pool.kill(slot)
    await expect(window.page.get_by_role("cell", name=re.compile(f"pid {pid}"))).to_have_count(0)
    await expect(window.page.locator("article summary:focus")).to_have_count(1)
    assert window.complaints == []


async def test_the_keyboard_keeps_its_place_when_what_stands_before_it_goes(served: Served, chrome: Screens) -> None:
    """What is behind it moves up, and a node that is moved loses the focus."""
    window = await chrome.open(served.base + "/")
    await window.live()
    assert (
        await window.page.evaluate(
            """() => {
            const tell = (html) =>
                source.dispatchEvent(new MessageEvent("live", { data: JSON.stringify({ html, time: 0 }) }));
            const second = '<details id="second"><summary>Kill</summary></details>';
            tell('<p id="first">goes</p>' + second);
            document.querySelector("#second summary").focus();
            tell(second);
            return document.activeElement.textContent + document.querySelectorAll("#first").length;
        }"""
        )
        == "Kill0"
    )


async def test_escape_takes_a_question_back(served: Served, chrome: Screens) -> None:
    await served.say("hello")
    window = await chrome.open(served.base + "/")
    await window.live()
    await window.page.get_by_text("Drain").first.click()
    sure = window.page.get_by_role("button", name=re.compile("Yes, drain"))
    await expect(sure).to_be_visible()
    await window.page.keyboard.press("Escape")
    await expect(sure).to_be_hidden()


async def test_without_a_script_it_shows_and_obeys(served: Served, chrome: Screens) -> None:
    await some_turns(served)
    window = await chrome.open(served.base + "/status", script=False)
    page = window.page
    await expect(page.get_by_role("table", name="The last turns").get_by_role("row")).to_have_count(1 + 4)
    await page.get_by_role("button", name="Pause the whole pool").click()
    await expect(page.get_by_text("Done: pause.")).to_be_visible()
    assert served.gateway.pool.snapshot().core.paused
    await page.get_by_role("button", name="Resume the whole pool").click()
    assert not served.gateway.pool.snapshot().core.paused
    await window.shoot("status-without-script")


async def test_what_cannot_be_done_is_said(served: Served, chrome: Screens) -> None:
    await served.say("hello")
    window = await chrome.open(served.base + "/", script=False)
    ((slot, pid),) = [(one.slot, one.pid) for one in served.gateway.pool.snapshot().processes]
    served.gateway.pool.kill(slot)
    await eventually(lambda: pid not in [one.pid for one in served.gateway.pool.snapshot().processes], "its end")
    await window.page.get_by_text("Recycle").first.click()
    await window.page.get_by_role("button", name=re.compile("Yes, recycle")).click()
    await expect(window.page.get_by_text(f"the pool has no process {slot}")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_nothing_is_hidden_from_a_screen_reader(served: Served, chrome: Screens, scheme: str) -> None:
    await some_turns(served)
    served.gateway.pool.pause()
    for path in ("/", "/chat"):
        for width in (WIDE, PHONE):
            window = await chrome.open(served.base + path, width=width, scheme=scheme)
            await window.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
            found = (await Axe().run(window.page)).response["violations"]
            assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []


async def test_nothing_but_the_page_itself_may_run_in_it(served: Served, chrome: Screens) -> None:
    window = await chrome.open(served.base + "/")
    await window.live()
    ran = await window.page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
        " document.body.append(s); return window.ran === 1 }"
    )
    assert not ran
    assert any("Content Security Policy" in said for said in window.complaints)


async def test_with_keys_an_operator_signs_in_and_out(tmp_path: Path, chrome: Screens) -> None:
    keys = keyed(("ops", OPERATOR, True), ("app", USER, False))
    async with serving(tmp_path / "data", auth__keys=keys) as served:
        window = await chrome.open(served.base + "/")
        page = window.page
        await page.get_by_label("API key").fill("no-such-key-at-all")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("alert")).to_contain_text("no key of this gateway")
        await window.shoot("sign-in")
        await page.get_by_label("API key").fill(OPERATOR)
        await page.get_by_role("button", name="Sign in").click()
        await window.live()
        await page.get_by_role("button", name="Pause the whole pool").click()
        await expect(page.get_by_role("status").first).to_contain_text("every key is paused")
        (cookie,) = await page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_label("API key")).to_be_visible()
        assert (await served.http.get("/", headers={"cookie": f"ostler_guest={cookie['value']}"})).status_code == 401


async def test_a_key_that_is_no_operators_sees_no_pool(tmp_path: Path, chrome: Screens) -> None:
    async with serving(tmp_path / "data", auth__keys=keyed(("app", USER, False))) as served:
        window = await chrome.open(served.base + "/login")
        await window.page.get_by_label("API key").fill(USER)
        await window.page.get_by_role("button", name="Sign in").click()
        await expect(window.page.get_by_role("heading", name="Not an operator's key")).to_be_visible()
        for path in ("/status/events", "/admin/pool"):
            assert (await window.page.request.get(served.base + path)).status == 403
        await window.page.get_by_role("link", name="To the chat").click()
        await expect(window.page.get_by_label("Message")).to_be_visible()


async def test_a_page_of_another_origin_can_order_nothing(served: Served, chrome: Screens, tmp_path: Path) -> None:
    """Loopback pages of other ports pass the host check; what they lack is the page's token."""
    async with serving(tmp_path / "other") as other:
        window = await chrome.open(other.base + "/docs")
        for path, body in (("/act", "verb=pause"), ("/admin/pool/pause", "{}")):
            call = f"fetch('{served.base}{path}', {{method: 'POST', body: '{body}', mode: 'no-cors'}})"
            await window.page.evaluate(f"() => {call}.then(() => 0, () => 0)")
        heads = {"origin": other.base}
        for path, body in (("/act", b"verb=pause"), ("/admin/pool/pause", b"{}")):
            assert (await served.http.post(path, content=body, headers=heads)).status_code == 403
        assert not served.gateway.pool.snapshot().core.paused


async def test_the_live_view_ends_with_the_gateway(served: Served, chrome: Screens) -> None:
    window = await chrome.open(served.base + "/")
    await window.live()
    async with asyncio.timeout(300):
        await served.gateway.sessions.drain(0)
        await expect(window.page.locator("#link")).to_contain_text("does not answer")
