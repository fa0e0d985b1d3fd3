"""Log records on stderr: one line each, for people (text) or for programs (JSON).

Rules:
- Everybody logs with the standard library, so that a host application keeps its own handlers; structlog renders. What
  is bound to the context (request, session, turn) and what a record brings as `extra` stand beside the event.
- Levels by logger. No configured secret is ever written, nor what an operator's own patterns match, nor what has the
  mark of a key: the last look is taken at the finished line, so that no way of formatting leads around it.
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
QUIETER = {"uvicorn.error": "warning"}
"""At the usual level. It tells of each of our two servers that it comes and goes, and advises to force it."""
JUNK = ("Invalid HTTP request", "Unsupported upgrade request", "No supported WebSocket library")
"""How the warnings of uvicorn begin that any client can cause, as often as it likes, by what it sends."""
SHORTEST_SECRET = 8
"""Shorter values are words; to hide them would garble the log and protect nobody."""
HIDDEN = "(hidden)"


class LogRedaction:
    """Takes secrets out of a finished line."""

    def __init__(self, secrets: Sequence[str], patterns: Sequence[str]) -> None:
        known = sorted((re.escape(secret) for secret in secrets), key=len, reverse=True)
        parts = [*known, *(f"(?:{pattern})" for pattern in patterns)]
        self._pattern = re.compile("|".join(parts)) if parts else None

    def __call__(self, line: str) -> str:
        return without_keys(line if self._pattern is None else self._pattern.sub(HIDDEN, line))


def is_worth_a_line(record: logging.LogRecord) -> bool:
    """Junk that clients send is answered; it is logged only where an operator looks for it."""
    return not str(record.msg).startswith(JUNK) or logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


class LogLines(structlog.stdlib.ProcessorFormatter):
    """One line a record, without secrets."""

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
    """From a record to a table of facts."""
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        spread_facts,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]


def spread_facts(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """`extra={"facts": {...}}` is a table of its own; it stands beside the rest."""
    event.pop("color_message", None)  # uvicorn's, the same again
    facts = event.pop("facts", None)
    return {**event, **facts} if isinstance(facts, dict) else event


def as_json(value: Any, default: Any = None, **_: Any) -> str:
    """What JSON cannot say is its text."""
    return orjson.dumps(value, default=default or str).decode()


def checked(settings: Settings) -> LogRedaction:
    """What hides secrets; or what is wrong with the section."""
    given = settings.log
    for name, level in given.levels.items():
        if level not in LEVELS:
            raise ConfigError(f"log.levels.{name}", f"{level!r} is none of {', '.join(LEVELS)}")
    try:
        with warnings.catch_warnings():
            # What a later Python reads differently would hide something else then.
            warnings.simplefilter("error", FutureWarning)
            return LogRedaction(secrets_in(settings), given.redact)
    except (re.error, FutureWarning) as error:
        raise ConfigError(
            "log.redact", f"is no plain regular expression: {error}; a literal sign has a \\ before it"
        ) from error


def set_up(settings: Settings) -> None:
    """For the whole process; called once, by a command."""
    given, redaction = settings.log, checked(settings)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLines(redaction, form=given.format, colours=sys.stderr.isatty()))
    logging.basicConfig(level=LEVELS[given.level], handlers=[handler], force=True)
    logging.getLogger("uvicorn.error").addFilter(is_worth_a_line)
    for name, level in {**(QUIETER if given.level == "info" else {}), **given.levels}.items():
        logging.getLogger(name).setLevel(LEVELS[level])


def secrets_in(settings: object) -> list[str]:
    """Every value that the settings call a secret. Without recursion: what an operator wrote may be deep."""
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
