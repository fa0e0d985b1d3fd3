"""`ostler pool`: inspect and control the pool of a running gateway, over its admin socket.

Exit codes: 0 done (also when Ctrl-C ends `watch`), 1 failed, 2 wrong usage, 3 no gateway runs there, 4 the gateway
refused, 5 not confirmed, 130 ended by Ctrl-C.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from ostler.gateway.config.data_folder import data_folder
from ostler.gateway.interrupts import raised
from ostler.gateway.model.errors import GatewayError
from ostler.gateway.ops.console.admin_client import AdminClient, NoGateway, OrderRefused
from ostler.gateway.ops.console.console_text import headline, state_lines, why_lines
from ostler.wire.json import JsonObject

SUMMARY = "show, watch and steer the pool of a running gateway"
DONE, FAILED, WRONG, NOBODY, REFUSED, UNSURE = range(6)

PoolVerb = Callable[[AdminClient, argparse.Namespace], int]


def run(argv: list[str]) -> int:
    """Run the verb of the command line; return the exit code."""
    try:
        options = parser().parse_args(argv)
    except SystemExit as over:
        return int(over.code or 0)
    return carry_out(options.does, options, "ostler pool")


def carry_out(does: PoolVerb, options: argparse.Namespace, name: str) -> int:
    """Run a verb, and turn the errors that an operator can cause into exit codes."""
    try:
        return does(AdminClient(data_folder(options.data_dir, os.environ)), options)
    except NoGateway as error:
        return complain(name, error, NOBODY)
    except OrderRefused as error:
        return complain(name, error, REFUSED)


def complain(name: str, error: Exception, code: int) -> int:
    print(f"{name}: {error}", file=sys.stderr)
    return code


def parser() -> argparse.ArgumentParser:
    """The arguments of the command and its verbs."""
    common = common_arguments()
    top = argparse.ArgumentParser(prog="ostler pool", description=SUMMARY)
    verbs = top.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, does: PoolVerb, text: str) -> argparse.ArgumentParser:
        arguments = verbs.add_parser(name, parents=[common], help=text, description=text)
        arguments.set_defaults(does=does, verb=name)
        return arguments

    verb("show", show, "what the pool holds").add_argument(
        "--turns", type=int, default=0, metavar="N", help="the last N turns too"
    )
    verb("watch", watch, "one line whenever something changes; Ctrl-C ends it")
    key_arguments(verb("why", why, "why a key is as warm as it is, and how its last claims went"))
    warming = key_arguments(verb("warm", order_key, "keep seats of a key ready from now on"))
    warming.add_argument("--seats", type=int, default=1, help="how many (1); 0 takes the floor away")
    for name, text in (("pause", "let claims wait: of KEY, or of every key"), ("resume", "take a pause back")):
        key_arguments(verb(name, order_key, text), optional=True)
    sure(key_arguments(verb("drain", order_key, "let the key's processes end when their sessions have moved")))
    key_arguments(verb("reconnect", order_key, "forget the key's start failures: the cause is mended"))
    process_arguments(verb("recycle", order_process, "replace one process; its successor starts first"))
    sure(process_arguments(verb("kill", order_process, "end one process now, with the turns on it")))
    return top


def common_arguments() -> argparse.ArgumentParser:
    """The arguments that every verb has."""
    arguments = argparse.ArgumentParser(add_help=False)
    arguments.add_argument("--data-dir", metavar="FOLDER", help="default: OSTLER_DATA_DIR, else the XDG state folder")
    arguments.add_argument("--json", action="store_true", help="JSON as the gateway says it, one object per line")
    return arguments


def key_arguments(arguments: argparse.ArgumentParser, *, optional: bool = False) -> argparse.ArgumentParser:
    arguments.add_argument(
        "key",
        metavar="KEY",
        nargs="?" if optional else None,
        help="a model alias, provider/model, or 'provider/model in /folder' as `show` prints it",
    )
    arguments.add_argument("--cwd", metavar="FOLDER", help="which of the key's directories, where there are several")
    return arguments


def process_arguments(arguments: argparse.ArgumentParser) -> argparse.ArgumentParser:
    arguments.add_argument("process", metavar="PROCESS", type=int, help="its number in `show` (not its pid)")
    return arguments


def sure(arguments: argparse.ArgumentParser) -> None:
    arguments.add_argument("--yes", action="store_true", help="do not ask")


# --- looking ---


def show(client: AdminClient, options: argparse.Namespace) -> int:
    say(client.show(), state_lines, options, options.turns)
    return DONE


def watch(client: AdminClient, options: argparse.Namespace) -> int:
    """Print each state; as text, only lines that differ from the one before."""
    last = None
    with until_interrupted():
        for state in client.states():
            said = json.dumps(state) if options.json else headline(state).rpartition(", up ")[0]
            if said != last:
                print(said, flush=True)
            last = said
    return DONE


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Ctrl-C ends the block without an error: it is the usual way to end `watch` and `top`."""
    with suppress(KeyboardInterrupt), raised():
        yield


def why(client: AdminClient, options: argparse.Namespace) -> int:
    say(client.why(options.key, options.cwd), why_lines, options)
    return DONE


# --- orders ---


def order_key(client: AdminClient, options: argparse.Namespace) -> int:
    facts: JsonObject = {name: value for name, value in (("key", options.key), ("cwd", options.cwd)) if value}
    if options.verb == "warm":
        facts["seats"] = options.seats
    return order(client, options, facts, f"{options.verb} {options.key}")


def order_process(client: AdminClient, options: argparse.Namespace) -> int:
    return order(client, options, {"process": options.process}, f"{options.verb} process {options.process}")


def order(client: AdminClient, options: argparse.Namespace, facts: JsonObject, what: str) -> int:
    """Send an order; asks first if the verb is destructive."""
    if not (vars(options).get("yes", True) or confirmed(what)):
        return complain("ostler pool", GatewayError(f"{what}: not confirmed; nothing was done"), UNSURE)
    say(client.order(options.verb, facts), lambda done: [done["said"]], options)
    return DONE


def confirmed(what: str) -> bool:
    """Ask for confirmation on a terminal. Without one, a script has given the order and is not asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    print(f"{what}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def say(facts: JsonObject, lines: Callable[..., Sequence[str]], options: argparse.Namespace, *more: int) -> None:
    print(json.dumps(facts) if options.json else "\n".join(lines(facts, *more)))
