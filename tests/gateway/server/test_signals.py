"""What a signal that comes early means later."""

import asyncio
import signal

from ostler.gateway.server.signals import ENDING, Signals


async def test_n49_a_hang_up_that_comes_before_the_keys_are_held_is_obeyed_when_they_are() -> None:
    told: list[str] = []
    loop, signals = asyncio.get_running_loop(), Signals()
    signals.note_reload()
    try:
        signals.attach()
        assert told == []
        signals.attach(lambda: told.append("read again"))
        assert told == ["read again"]
    finally:
        for number in (*ENDING, signal.SIGHUP):
            loop.remove_signal_handler(number)
