"""`ostler serve`: run the gateway. Without any configuration it serves the demo agent to this machine."""

import argparse
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from ostler.gateway.signals import Signals

SUMMARY = "run the gateway"
SIGNALS = """
SIGTERM or SIGINT: stop; running turns may end (gateway.drain), a second one ends the wait. SIGHUP: read the keys again.
Exit codes: 0 stopped by a signal, also in the middle of the start; 1 cannot start; 2 called wrongly.
"""


def arguments(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="ostler serve",
        description="Run the gateway until SIGTERM.",
        epilog=SIGNALS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--host", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (8787; 0 takes a free one)")
    parser.add_argument("--uds", metavar="PATH", help="listen on a unix socket instead")
    parser.add_argument("--data-dir", metavar="DIR", help="where everything is kept (OSTLER_DATA_DIR, else XDG state)")
    parser.add_argument("--config", metavar="FILE", help="configuration (OSTLER_CONFIG, else ./ostler.toml)")
    return parser.parse_args(argv)


def run(argv: list[str]) -> int:
    """Serve; 1 when the gateway cannot start."""
    given = arguments(argv)

    from ostler.gateway.signals import Signals  # noqa: PLC0415 - `ostler serve --help` needs none of this

    signals = Signals()
    signals.install()

    from ostler.gateway.errors import GatewayError  # noqa: PLC0415 - see above
    from ostler.pool.errors import PoolError  # noqa: PLC0415 - see above

    try:
        start(given, signals)
    except (GatewayError, PoolError) as error:
        print(f"ostler: {error}", file=sys.stderr)
        return 1
    return 0


def start(given: argparse.Namespace, signals: "Signals") -> None:
    """Read the configuration, take the address, serve."""
    from ostler.gateway.importing import importing  # noqa: PLC0415 - see above

    with importing():
        import uvloop  # noqa: PLC0415 - see above

        from ostler.gateway import log  # noqa: PLC0415 - see above
        from ostler.gateway.api.keys import check_exposure  # noqa: PLC0415 - see above
        from ostler.gateway.config.load import load  # noqa: PLC0415 - see above
        from ostler.gateway.listener import address_of, born, listen, listen_unix, remove_own  # noqa: PLC0415 - see above
        from ostler.gateway.serving import serve  # noqa: PLC0415 - see above
        from ostler.gateway.systemd import inherited_socket  # noqa: PLC0415 - see above

    named = {"gateway.host": given.host, "gateway.port": given.port, "gateway.uds": given.uds}
    overrides: list[tuple[str, Any]] = [(key, value) for key, value in named.items() if value is not None]
    loaded = load(os.environ, config=given.config, data_dir=given.data_dir, overrides=overrides)
    settings = loaded.settings
    log.set_up(settings)
    check_exposure(settings.gateway.host, settings.gateway.uds, settings.auth)
    if signals.told.is_set():
        return
    listener, made = inherited_socket(os.environ), None
    if listener is None:
        made = as_path(settings.gateway.uds) if settings.gateway.uds else None
        listener = listen_unix(made) if made else listen(settings.gateway)
    ours = born(made) if made else None
    ready = partial(greet, address_of(listener), loaded.data_dir, configured=loaded.file is not None)
    try:
        uvloop.run(serve(loaded, os.environ, listener, ready, signals))
    finally:
        if made is not None and ours is not None:
            remove_own(made, ours)
        listener.close()


def as_path(text: str) -> "Path":
    """A path a person typed."""
    from pathlib import Path  # noqa: PLC0415 - see above

    return Path(text).expanduser().absolute()


def greet(address: str, folder: "Path", *, configured: bool) -> None:
    """What to do next, for somebody who has just started it for the first time; and where we are, for `ostler chat`."""
    from ostler.gateway.address import leave_address  # noqa: PLC0415 - see above

    leave_address(folder, address)
    if configured:
        print(f"ostler serves at {address}", flush=True)
        return
    body = '{"model": "demo", "input": "hello"}'
    print(f"ostler serves the demo agent at {address}; no key is needed on this machine")
    print(f"try it:  curl {address}/v1/responses -H 'content-type: application/json' -d '{body}'")
    print("or talk: ostler chat")
    print("go on:   write ostler.toml (ostler config show prints every setting) and name a model of gemini, codex, ...")
    print(f"look in: {address}/ shows the pool, {address}/chat talks to the agent", flush=True)
