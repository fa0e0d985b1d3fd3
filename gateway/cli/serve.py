"""`ostler serve`: run the gateway. Without any configuration, it serves the demo agent on this machine."""

import argparse
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ostler.gateway.server.signals import Signals

SUMMARY = "run the gateway"
SWITCH = 0.0005
"""Seconds after which a computing thread hands on Python's lock. The store's writer needs the lock several times per
turn; with the default, ten times as long, a flood of requests delays it by 5 ms each time."""
SIGNALS = """
SIGTERM or SIGINT: stop; running turns may end (gateway.drain), a second one ends the wait. SIGHUP: read the keys again.
Exit codes: 0 stopped by a signal, also in the middle of the start; 1 cannot start; 2 called wrongly.
"""


def arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the command line; exits on errors."""
    parser = argparse.ArgumentParser(
        prog="ostler serve",
        description="Run the gateway until SIGTERM.",
        epilog=SIGNALS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--host", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=port, help="port to listen on (8787; 0 takes a free one)")
    parser.add_argument("--uds", metavar="PATH", help="listen on a unix socket instead")
    parser.add_argument("--data-dir", metavar="DIR", help="where everything is kept (OSTLER_DATA_DIR, else XDG state)")
    parser.add_argument("--config", metavar="FILE", help="configuration (OSTLER_CONFIG, else ./ostler.toml)")
    return parser.parse_args(argv)


def port(text: str) -> int:
    """Parse a port number, for argparse."""
    number = int(text)
    if not 0 <= number < 65_536:
        raise ValueError(text)
    return number


def run(argv: list[str]) -> int:
    """Serve until a signal ends the process."""
    given = arguments(argv)

    from ostler.gateway.server.signals import Signals  # noqa: PLC0415 - `ostler serve --help` needs none of this

    signals = Signals()
    signals.install()
    start(given, signals)
    return 0


def start(given: argparse.Namespace, signals: "Signals") -> None:
    """Load the configuration, open the listener, and serve."""
    from ostler.gateway.server.importing import importing  # noqa: PLC0415 - see above

    with importing():
        import uvloop  # noqa: PLC0415 - see above

        from ostler.gateway.config.data_folder import spelled_out  # noqa: PLC0415 - see above
        from ostler.gateway.config.keys import check_exposure  # noqa: PLC0415 - see above
        from ostler.gateway.config.load import load  # noqa: PLC0415 - see above
        from ostler.gateway.config.settings import GatewaySettings  # noqa: PLC0415 - see above
        from ostler.gateway.ops import log  # noqa: PLC0415 - see above
        from ostler.gateway.ops.settings_check import levels_in_force  # noqa: PLC0415 - see above
        from ostler.gateway.server.heap import keep_little  # noqa: PLC0415 - see above
        from ostler.gateway.server.listener import (  # noqa: PLC0415 - see above
            CannotListen,
            address_of,
            born,
            listen,
            listen_unix,
            remove_own,
        )
        from ostler.gateway.server.serving import serve  # noqa: PLC0415 - see above
        from ostler.gateway.server.systemd import inherited_socket  # noqa: PLC0415 - see above
        from ostler.gateway.stores.owner import check_alone  # noqa: PLC0415 - see above
        from ostler.wire.descriptors import raise_open_files  # noqa: PLC0415 - see above

    named = {"gateway.host": given.host, "gateway.port": given.port, "gateway.uds": given.uds}
    overrides: list[tuple[str, Any]] = [(key, value) for key, value in named.items() if value is not None]
    loaded = load(os.environ, config=given.config, data_dir=given.data_dir, overrides=overrides)
    settings = loaded.settings
    log.set_up(settings)
    check_exposure(settings.gateway.host, settings.gateway.uds, settings.auth)
    if signals.ending.is_set():
        return
    listener, made = inherited_socket(os.environ), None
    if listener is None:
        made = spelled_out(settings.gateway.uds) if settings.gateway.uds else None
        try:
            listener = listen_unix(made) if made else listen(settings.gateway)
        except CannotListen:
            check_alone(loaded.data_dir)  # its holder may have our folder too; then another port would not help
            raise
    ours = born(made) if made else None
    keyed = bool(settings.auth.api_key or settings.auth.keys)
    configured = loaded.file is not None or settings.gateway.default_model != GatewaySettings().default_model
    levels = partial(levels_in_force, settings, loaded.data_dir, environ=os.environ)
    ready = partial(greet, address_of(listener), loaded.data_dir, levels, configured=configured, keyed=keyed)
    keep_little()
    sys.setswitchinterval(SWITCH)
    raise_open_files()
    try:
        uvloop.run(serve(loaded, os.environ, listener, ready, signals))
    finally:
        if made is not None and ours is not None:
            remove_own(made, ours)
        listener.close()


def greet(
    address: str, folder: "Path", levels: "Callable[[], Sequence[str]]", *, configured: bool, keyed: bool
) -> None:
    """Announce the address, to the operator and in the data folder for `ostler chat`, and print the permission levels
    in force. Without a configuration, also print what to try first."""
    from ostler.gateway.server.address import leave_address  # noqa: PLC0415 - see above

    leave_address(folder, address)
    if configured:
        print("\n".join([f"ostler serves at {address}", *levels()]), flush=True)
        return
    body = '{"model": "demo", "input": "hello"}'
    needed = "a key is needed (OSTLER_API_KEY)" if keyed else "no key is needed on this machine"
    key = ' -H "authorization: Bearer $OSTLER_API_KEY"' if keyed else ""
    print(f"ostler serves the demo agent at {address}; {needed}")
    print(f"try it:  curl {address}/v1/responses{key} -H 'content-type: application/json' -d '{body}'")
    print("or talk: ostler chat")
    print("go on:   write ostler.toml (ostler config show prints every setting) and name a model of gemini, codex, ...")
    print(f"look in: {address}/ shows the pool, {address}/chat talks to the agent")
    print("\n".join(levels()), flush=True)
