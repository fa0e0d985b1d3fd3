"""`ostler chat` across the end and the return of its gateway: it waits, and never takes the gateway's place."""

import asyncio
import re
import signal
from pathlib import Path

import pytest

from ostler.gateway.cli.terminal.gateway_locator import GatewayLocator, GatewayOptions
from ostler.gateway.cli.terminal.http import Unreachable
from ostler.gateway.stores.owner import last_holder
from tests.support.serve_command import command, refused
from tests.support.terminal import CTRL_C, CTRL_D, ENTER, environment, terminal
from tests.support.waiting import eventually, soon

PROMPT = "›"
pytestmark = pytest.mark.long


def test_n47_a_chat_waits_for_the_gateway_it_has_met_and_keeps_what_was_typed(tmp_path: Path) -> None:
    with command(tmp_path) as first, terminal(tmp_path) as tty:
        tty.until(PROMPT)
        tty.say("one")
        tty.until("echo: one")
        tty.until(PROMPT)
        first.end(signal.SIGKILL)
        tty.say("two")
        tty.until("waiting for it")
        tty.press(CTRL_C)
        tty.until("Not sent")
        tty.until("two")
        tty.press(ENTER)
        tty.until("waiting for it")
        with command(tmp_path) as second:
            tty.until(f"The gateway is back at {second.base}.")
            tty.until("echo: two")
            tty.until(PROMPT)
            assert last_holder(tmp_path / "data").pid == second.process.pid
            tty.press(CTRL_D)
            assert tty.ends() == 0


def test_n47_a_message_that_a_stopping_gateway_refuses_goes_to_the_next_one(tmp_path: Path) -> None:
    with command(tmp_path) as first, terminal(tmp_path) as tty:
        tty.until(PROMPT)
        tty.say("one")
        tty.until("echo: one")
        tty.until(PROMPT)
        with (
            first.http() as http,
            http.stream("POST", "/v1/responses", json={"input": "begun\n!hang", "stream": True}) as held,
        ):
            lines = held.iter_lines()
            next(
                line for line in lines if "output_text.delta" in line
            )  # the turn that its agent has heard holds the drain
            first.process.send_signal(signal.SIGTERM)
            with first.http() as look:
                asyncio.run(eventually(lambda: look.get("/readyz").status_code == 503, "the drain"))
            tty.say("two")
            tty.until("waiting for it")
            assert first.end(signal.SIGTERM) == 0
        with command(tmp_path):
            tty.until("The gateway is back")
            tty.until("echo: two")


def test_n47_an_answer_that_breaks_off_is_said_to_have_been_sent(tmp_path: Path) -> None:
    with command(tmp_path) as gateway, terminal(tmp_path) as tty:
        tty.until(PROMPT)
        tty.say("!stream 3")
        tty.until("t2")  # the line that was typed shows a prompt too
        tty.until(PROMPT)
        tty.press("begun\x1b\r!hang", ENTER)
        tty.until("echo: begun")
        gateway.end(signal.SIGKILL)
        tty.until("your message was sent, /history shows what is stored of it")
        tty.until(PROMPT)


def test_n47_the_terminal_that_brought_the_gateway_along_is_succeeded_and_that_is_said(tmp_path: Path) -> None:
    with terminal(tmp_path) as first:
        first.until(PROMPT)
        with terminal(tmp_path) as second:
            second.until(PROMPT)
            second.say("one")
            second.until("echo: one")
            second.until(PROMPT)
            first.press(CTRL_D)
            assert first.ends() == 0
            second.say("two")
            second.until("The terminal that brought the gateway along has ended")
            second.until("echo: two")


def test_n47_a_refusal_names_what_holds_the_folder(tmp_path: Path) -> None:
    since = r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    with terminal(tmp_path) as tty:
        tty.until(PROMPT)
        said = refused(tmp_path)
        assert said.returncode == 1
        assert re.search(rf"ostler chat \(pid {tty.process.pid}, {since}\) works on this data folder", said.stderr)
        tty.press(CTRL_D)
        tty.ends()
    with command(tmp_path) as gateway:
        said = refused(tmp_path)
        assert re.search(rf"ostler serve \(pid {gateway.process.pid}, {since}\) works on", said.stderr)
        port = gateway.base.rpartition(":")[2]
        taken = refused(tmp_path, "--port", port)
        assert f"ostler serve (pid {gateway.process.pid}" in taken.stderr


@pytest.mark.asyncio
async def test_n47_a_script_waits_no_longer_than_its_patience(tmp_path: Path) -> None:
    told: list[str] = []
    with command(tmp_path) as gateway:
        where = GatewayOptions(gateway.base, data_dir=str(tmp_path / "data"), patience=0.5)
        async with GatewayLocator.opened(where, environment(tmp_path, {}), told.append) as locator:
            assert (await locator.find()).address == gateway.base
            await asyncio.to_thread(gateway.end, signal.SIGKILL)
            with pytest.raises(Unreachable, match="did not come back"):
                await soon(locator.find(), "the end of the patience")
    assert len(told) == 1
