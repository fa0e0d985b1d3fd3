"""Log records on stderr: one line each, as text for people or as JSON for programs.

Rules:
- All code logs with the standard library, so that a host application keeps its own handlers; structlog only renders.
  Facts bound to the context (request, session, turn) and the `extra` of a record are added to the event.
- Each logger may have a level. A line never contains a configured secret, a match of the operator's `log.redact`
  patterns, or a text with the prefix of a known kind of key. The finished line is redacted, so no formatter can bypass
  it.
"""

import logging
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import orjson
import structlog
from msgspec import Struct
from structlog.typing import EventDict, Processor, WrappedLogger

from ostler.gateway.config.errors import ConfigError
from ostler.gateway.config.settings import SECRET, Settings
from ostler.wire.redaction import without_keys

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
log = logging.getLogger(__name__)

QUIETER = {"uvicorn.error": "warning"}
"""Quieter loggers at level info. uvicorn reports start and stop of each of our two servers, and advises to force a
quit."""
JUNK = ("Invalid HTTP request", "Unsupported upgrade request", "No supported WebSocket library")
"""Beginnings of uvicorn's warnings that any client can cause by what it sends, as often as it likes."""
SHORTEST_SECRET = 8
"""Shorter values are likely to be ordinary words; hiding them would garble the log and protect nothing."""
HIDDEN = "(hidden)"


class LogRedaction:
    """Replaces secrets in a finished line."""

    def __init__(self, secrets: Sequence[str], patterns: Sequence[str]) -> None:
        known = sorted((re.escape(secret) for secret in secrets), key=len, reverse=True)
        # Each pattern by itself: joined, their groups would be numbered through and their names could meet.
        self._patterns = [re.compile(each) for each in (*filter(None, ["|".join(known)]), *patterns)]

    def __call__(self, line: str) -> str:
        for pattern in self._patterns:
            line = pattern.sub(HIDDEN, line)
        return without_keys(line)


def is_worth_a_line(record: logging.LogRecord) -> bool:
    """Whether to log the record. Invalid requests of clients are answered; they are logged only at level debug."""
    return not str(record.msg).startswith(JUNK) or logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


class LogLines(structlog.stdlib.ProcessorFormatter):
    """Formats a record as one line, and redacts it."""

    def __init__(self, redaction: LogRedaction, *, form: str, colours: bool) -> None:
        last: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
        if form == "json":
            last += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=as_json)]
        else:
            plain = structlog.dev.plain_traceback
            last += [structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=plain, timestamp_key="time")]
        super().__init__(processors=last, foreign_pre_chain=chain())
        self._redaction = redaction

    def format(self, record: logging.LogRecord) -> str:
        return self._redaction(super().format(record))


def chain() -> list[Processor]:
    """The processors that turn a record into a dictionary."""
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        spread_facts,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]


def spread_facts(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Merge `extra={"facts": {...}}` into the event."""
    event.pop("color_message", None)  # uvicorn's copy of the message
    facts = event.pop("facts", None)
    return {**event, **facts} if isinstance(facts, dict) else event


def as_json(value: Any, default: Any = None, **_: Any) -> str:
    """Encode as JSON; a value that JSON does not support is encoded as its text."""
    return orjson.dumps(value, default=default or str).decode()


def checked(settings: Settings) -> LogRedaction:
    """Build the redaction from the settings. Raises `ConfigError` for an invalid `log` section."""
    given = settings.log
    for name, level in given.levels.items():
        if level not in LEVELS:
            raise ConfigError(f"log.levels.{name}", f"{level!r} is none of {', '.join(LEVELS)}")
    try:
        with warnings.catch_warnings():
            # Refuse a pattern that a later version of Python would read differently.
            warnings.simplefilter("error", FutureWarning)
            return LogRedaction(secrets_in(settings), given.redact)
    except (re.error, FutureWarning) as error:
        raise ConfigError(
            "log.redact", f"is no plain regular expression: {error}; a literal sign has a \\ before it"
        ) from error


def set_up(settings: Settings) -> None:
    """Configure logging for the whole process. Called once, by a command."""
    given, redaction = settings.log, checked(settings)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLines(redaction, form=given.format, colours=sys.stderr.isatty()))
    logging.basicConfig(level=LEVELS[given.level], handlers=[handler], force=True)
    logging.getLogger("uvicorn.error").addFilter(is_worth_a_line)
    for name, level in {**(QUIETER if given.level == "info" else {}), **given.levels}.items():
        logging.getLogger(name).setLevel(LEVELS[level])


def secrets_in(settings: object) -> list[str]:
    """Collect every secret value of the settings. Iterative, because an operator may nest tables deeply."""
    found: list[str] = []
    rest: list[tuple[object, bool]] = [(settings, False)]
    while rest:
        value, secret = rest.pop()
        match value:
            case str() if secret and len(value) >= SHORTEST_SECRET:
                found.append(value)
            case Struct():
                rest.append((msgspec.structs.asdict(value), secret))
            case Mapping():
                rest += [(part, secret or name in SECRET) for name, part in value.items()]
            case list() | tuple():
                rest += [(part, secret) for part in value]
    return found


def log_death(name: str, error: BaseException) -> None:
    """Log a task that died. It is a bug: it took one turn with it, and must be visible."""
    log.critical("%s died: %s", name, error, exc_info=error)
