"""The chat page in a real browser. The chat face's own events are played to it, so that each kind is seen."""

import json
from pathlib import Path

import pytest
from playwright.async_api import Page, Route, expect

from tests.support.browser import PHONE, WIDE, Screens
from tests.support.served import Served, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")


def stream(*events: dict[str, object]) -> str:
    """As the chat face writes them."""
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def whole(status: str, text: str, **more: object) -> dict[str, object]:
    """The last event."""
    message = {"object": "session.message", "kind": "answer", "status": status, "text": text, "items": [], **more}
    return {"type": f"session.message.{status}", "message": message}


async def test_a_conversation_by_keyboard(served: Served, chrome: Screens) -> None:
    window = await chrome.open(served.base + "/chat", width=PHONE)
    page, asked = window.page, []

    async def answer(route: Route) -> None:
        asked.append((route.request.url, route.request.post_data_json))
        pieces = [{"type": "session.message.delta", "text": word} for word in ("<b>no", " markup</b>")]
        permission = {"id": "mcpr_1", "title": "Run ls", "arguments": "{}"}
        body = stream(
            {"type": "session.message.started", "id": "m"},
            {"type": "session.message.permission", "permission": permission},
            *pieces,
            whole("completed", "<b>no markup</b>"),
        )
        await route.fulfill(body=body, content_type="text/event-stream; charset=utf-8")

    await page.route("**/v1/sessions/**", answer)
    await page.get_by_label("Message").fill("hello")
    await page.keyboard.press("Enter")
    log = page.get_by_role("log")
    await expect(log).to_contain_text("<b>no markup</b>")
    await expect(log).to_contain_text("The agent asks: Run ls. Answer /approve, /approve always or /deny.")
    await expect(page.get_by_label("Message")).to_be_focused()
    await expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    ((url, body),) = asked
    assert body == {"text": "hello", "stream": True}
    assert "/v1/sessions/web%3A" in url
    await window.shoot("chat-360")
    assert window.complaints == []


async def test_a_failed_turn_and_an_error_are_said(served: Served, chrome: Screens) -> None:
    window = await chrome.open(served.base + "/chat")
    page = window.page

    async def failing(route: Route) -> None:
        body = stream(whole("failed", "", error={"code": "agent_error", "message": "the agent was lost"}))
        await route.fulfill(body=body, content_type="text/event-stream")

    async def refusing(route: Route) -> None:
        await route.fulfill(status=429, json={"error": {"message": "too many turns wait"}})

    for handler, said in ((failing, "the agent was lost"), (refusing, "too many turns wait")):
        await page.unroute("**/v1/sessions/**")
        await page.route("**/v1/sessions/**", handler)
        await page.get_by_label("Message").fill("hello")
        await page.get_by_role("button", name="Send").click()
        await expect(page.get_by_role("log")).to_contain_text(said)


async def test_a_real_conversation_remembers_and_obeys_commands(served: Served, chrome: Screens) -> None:
    window = await chrome.open(served.base + "/chat")
    page, log = window.page, window.page.get_by_role("log")

    async def say(text: str, answer: str) -> None:
        await page.get_by_label("Message").fill(text)
        await page.keyboard.press("Enter")
        await expect(log.locator(".agent").last).to_have_text(f"Agent{answer}")

    await say("first word", "echo: first word")
    await say("!recall", "first word")
    await page.get_by_label("Message").fill("/new")
    await page.keyboard.press("Enter")
    await expect(log.locator(".note")).to_contain_text("A new session begins")
    await say("!recall\nsecond word", " echo: second word")
    await window.shoot("chat")
    await page.reload()
    await expect(log.locator(".line")).to_have_text(["You!recall\nsecond word", "Agent echo: second word"])
    await say("!recall", "!recall\nsecond word")
    assert window.complaints == []


async def test_f22_a_question_of_the_agent_is_answered_while_its_turn_waits(tmp_path: Path, chrome: Screens) -> None:
    async with serving(tmp_path / "data", pool__permissions="ask") as served:
        window = await chrome.open(served.base + "/chat")
        page, log = window.page, window.page.get_by_role("log")
        for word, option in (("/approve", "allow_once"), ("/deny", "reject_once")):
            await page.get_by_label("Message").fill("!ask to look")
            await page.keyboard.press("Enter")
            await expect(log.locator(".note").last).to_contain_text("The agent asks: to look")
            await page.get_by_label("Message").fill(word)
            await page.keyboard.press("Enter")
            await expect(log.locator(".agent").last).to_contain_text(f"selected: {option}")
        assert window.complaints == []


@pytest.mark.parametrize("width", [WIDE, PHONE])
@pytest.mark.parametrize("policy", ["cancel", "continue"])
async def test_n50_stop_ends_the_turn_of_the_agent(tmp_path: Path, chrome: Screens, policy: str, width: int) -> None:
    async with serving(tmp_path / "data", gateway__on_disconnect=policy) as served:
        window = await chrome.open(served.base + "/chat", width=width)
        page = window.page
        await say(page, "begun\n!late")
        await expect(page.get_by_role("log")).to_contain_text("waiting")
        await page.get_by_role("button", name="Stop").click()
        await expect(page.get_by_role("status")).to_have_text("Stopped.")
        await expect(page.get_by_role("button", name="Stop")).to_be_hidden()
        assert served.gateway.sessions.running == 0
        assert served.frames("session/cancel")
        await say(page, "and on")
        await expect(page.locator(".agent").last).to_contain_text("echo: and on")
        assert window.complaints == []


@pytest.mark.parametrize("width", [WIDE, PHONE])
@pytest.mark.parametrize("policy", ["cancel", "continue"])
async def test_n50_a_page_that_is_loaded_again_goes_on_with_the_running_turn(
    tmp_path: Path, chrome: Screens, policy: str, width: int
) -> None:
    settings = {"gateway__on_disconnect": policy, "pool__permissions": "ask"}
    async with serving(tmp_path / "data", **settings) as served:
        window = await chrome.open(served.base + "/chat", width=width)
        page, log = window.page, window.page.get_by_role("log")
        await say(page, "before\n!ask to look\nbehind")
        await expect(log).to_contain_text("echo: before")
        await expect(log).to_contain_text("The agent asks: to look")
        await page.reload()
        await expect(log.locator(".you")).to_have_text(["Youbefore\n!ask to look\nbehind"])
        await expect(log).to_contain_text("echo: before")
        await expect(page.get_by_role("button", name="Stop")).to_be_visible()
        await say(page, "/approve")
        await expect(log.locator(".agent").last).to_contain_text("echo: behind")
        await expect(log.get_by_text("echo: before")).to_have_count(1)
        assert len(served.prompts()) == 1
        await say(page, "begun\n!late")
        await expect(log).to_contain_text("waiting")
        await page.reload()
        await expect(log).to_contain_text("waiting")
        await page.get_by_role("button", name="Stop").click()
        await expect(page.get_by_role("status")).to_have_text("Stopped.")
        assert served.gateway.sessions.running == 0
        assert window.complaints == []


async def test_n50_a_conversation_outlives_its_tab(served: Served, chrome: Screens) -> None:
    window = await chrome.open(served.base + "/chat")
    await say(window.page, "first word")
    await expect(window.page.locator(".agent")).to_have_text("Agentecho: first word")
    await say(window.page, "begun\n!sleep 0.2\nended")
    await expect(window.page.get_by_role("log")).to_contain_text("begun")
    context = window.page.context
    await window.page.close()
    page = await context.new_page()
    await page.goto(served.base + "/chat")
    await expect(page.locator(".line").first).to_have_text("Youfirst word")
    await expect(page.locator(".agent").last).to_contain_text("echo: ended")
    await say(page, "!recall")
    await expect(page.locator(".agent").last).to_contain_text("first word")


async def test_n50_stop_that_comes_before_the_turn_has_begun_ends_it_too(served: Served, chrome: Screens) -> None:
    window = await chrome.open(served.base + "/chat")
    page, log = window.page, window.page.get_by_role("log")
    await say(page, "warm")
    await expect(log.locator(".agent")).to_have_count(1)
    # Both clicks within one task of the page: the message has not even been sent when the gateway is told to stop.
    await page.evaluate(
        """() => {
        text.value = "begun\\n!late";
        ask.requestSubmit();
        stop.click();
        }"""
    )
    await expect(page.get_by_role("status")).to_have_text("Stopped.")
    assert served.gateway.sessions.running == 0
    assert window.complaints == []


async def test_n50_an_answer_that_breaks_off_is_said(served: Served, chrome: Screens) -> None:
    window = await chrome.open(served.base + "/chat")

    async def cut(route: Route) -> None:
        body = stream({"type": "session.message.started", "id": "m"}, {"type": "session.message.delta", "text": "half"})
        await route.fulfill(body=body, content_type="text/event-stream")

    await window.page.route("**/v1/sessions/**", cut)
    await say(window.page, "hello")
    await expect(window.page.get_by_role("log")).to_contain_text("The connection broke; reload the page")


async def say(page: Page, text: str) -> None:
    """Type and send."""
    await page.get_by_label("Message").fill(text)
    await page.keyboard.press("Enter")
