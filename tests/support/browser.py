"""A real headless Chromium on a real page, which hears every complaint of the browser.

Where no browser is installed the tests that need one skip and say so (`apt install chromium-headless-shell`, or set
OSTLER_CHROMIUM). The shell is the same browser without a screen's parts, at half the processor time of the whole one.
Screenshots go to `build/screenshots`, for people to look at.
"""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright, expect

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"
WIDE, PHONE = 1200, 360
PATIENCE = 300_000
"""Milliseconds: what is awaited comes as an event; this only ends a test that would wait for ever."""


def chromium() -> str | None:
    """The program, if there is one."""
    return os.environ.get("OSTLER_CHROMIUM") or next((found for name in NAMES if (found := shutil.which(name))), None)


@dataclass
class Window:
    """One page and what it complained of."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    async def shoot(self, name: str) -> None:
        """A picture of the whole page."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        await self.page.screenshot(path=SHOTS / f"{name}.png", full_page=True)

    async def live(self) -> None:
        """Wait until the page has heard from the gateway."""
        await self.page.wait_for_selector("html[data-live]", state="attached")


@dataclass
class Screens:
    """A browser."""

    browser: Browser
    """Perhaps of many tests: each page has a profile of its own."""
    windows: list[Window] = field(default_factory=list)

    async def open(
        self,
        url: str,
        *,
        width: int = WIDE,
        scheme: str = "light",
        script: bool = True,
        headers: dict[str, str] | None = None,
    ) -> Window:
        """A page in a profile of its own."""
        context = await self.browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
            java_script_enabled=script,
        )
        window = Window(await context.new_page())
        self.windows.append(window)
        window.page.on("console", lambda message: note(window, message))
        window.page.on("pageerror", lambda error: window.complaints.append(str(error)))
        await window.page.goto(url)
        return window

    async def close(self) -> None:
        """Leave the browser as it was."""
        for window in self.windows:
            await window.page.context.close()


def note(window: Window, message: ConsoleMessage) -> None:
    """What the browser says of its own accord; pages of ours log nothing."""
    window.complaints.append(f"{message.type}: {message.text}")


@asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    """A running browser, or a skipped test."""
    program = chromium()
    if program is None:
        pytest.skip("no Chromium here: install it (apt install chromium-headless-shell) or name it in OSTLER_CHROMIUM")
    expect.set_options(timeout=PATIENCE)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        try:
            yield browser
        finally:
            await browser.close()
