"""`make screenshots`: the pictures of the README, from a real gateway with real turns. Nothing in them is made up.

The demo agents take 1.2 s to start and 0.15 s to open a session, as an agent on Node does; all else is as installed.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

import httpx
from playwright.async_api import expect

from tests.support.browser import PHONE, Screens, browsing, chromium
from tests.support.serve_command import command

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "img"
LIKE_A_REAL_ONE = '["--boot-delay", "1.2", "--slow-session-new", "0.15"]'
WEATHER = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}
TURNS = (
    ("demo/quick", "!sleep 0.2\nhello"),
    ("demo/quick", "!sleep 0.4\nhow are you"),
    ("demo/deep", "!sleep 0.9\nthink about it"),
    ("demo/quick", "!sleep 0.3\nagain"),
    ("demo/deep", "!stderr 0\n!die 3"),
    ("demo/deep", "!sleep 0.7\nthink again"),
    ("demo/quick", "!sleep 0.25\nand again"),
    ("demo/quick", "!sleep 0.5\nonce more"),
)
SAID = (("What do you do?", "echo:"), ("!recall", "What do you do?"), ("/new", "A new session begins"))


def work(base: str) -> None:
    """Turns as clients send them, one with a function of the client's own, one that ends its agent."""
    with httpx.Client(base_url=base, timeout=300, trust_env=False) as http:
        for model, text in TURNS:
            http.post("/v1/responses", json={"model": model, "input": text})
        asked = {"model": "demo/quick", "input": "!sleep 0.2\n!call weather {}", "tools": [WEATHER]}
        first = http.post("/v1/responses", json=asked).json()
        (call,) = [item for item in first["output"] if item["type"] == "function_call"]
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
        answered = {"model": "demo/quick", "input": [output], "previous_response_id": first["id"], "tools": [WEATHER]}
        http.post("/v1/responses", json=answered).raise_for_status()


async def look(chrome: Screens, base: str) -> None:
    """Every picture."""
    for name, width, scheme, height in (("status", 1100, "light", 1150), ("status-phone", PHONE, "dark", 1150)):
        window = await chrome.open(base + "/", width=width, scheme=scheme)
        await window.live()
        await expect(window.page.locator("meter").first).to_be_visible()
        await window.page.screenshot(
            path=IMAGES / f"{name}.png", clip={"x": 0, "y": 0, "width": width, "height": height}, full_page=True
        )
    window = await chrome.open(base + "/chat", width=1100)
    for text, answer in SAID:
        before = await window.page.locator("#log .line").count()
        await window.page.get_by_label("Message").fill(text)
        await window.page.keyboard.press("Enter")
        await expect(window.page.locator("#log .line")).to_have_count(before + 2)
        await expect(window.page.locator("#log .line").last).to_contain_text(answer)
    await window.page.screenshot(path=IMAGES / "chat.png", clip={"x": 0, "y": 0, "width": 1100, "height": 780})


async def draw(base: str) -> None:
    """With a browser of its own."""
    async with browsing() as browser:
        await look(Screens(browser), base)


def main() -> int:
    """Exit code 1 where there is no browser."""
    if chromium() is None:
        print("no Chromium here: apt install chromium, or name it in OSTLER_CHROMIUM", file=sys.stderr)
        return 1
    IMAGES.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="ostler-") as folder,
        command(Path(folder), OSTLER_PROVIDERS__DEMO__ARGS=LIKE_A_REAL_ONE) as gateway,
    ):
        work(gateway.base)
        asyncio.run(draw(gateway.base))
        gateway.end()
    for picture in sorted(IMAGES.glob("*.png")):
        print(f"{picture.relative_to(IMAGES.parents[1])}: {picture.stat().st_size >> 10} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
