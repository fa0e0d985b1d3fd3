"""Log lines: what stands in them, and what never does."""

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ostler.gateway.config.errors import ConfigError
from ostler.gateway.config.settings import (
    AuthSettings,
    LogSettings,
    MetricsSettings,
    ProviderSection,
    Settings,
    ToolSettings,
)
from ostler.gateway.model.correlation import NONE, ORIGIN, RequestOrigin, on_behalf_of, origin_of
from ostler.gateway.ops.log import HIDDEN, LogLines, LogRedaction, secrets_in, set_up

SECRETS = [
    "sk-the-key-of-a-person",
    "a-token-for-prometheus",
    "value-of-an-agents-key",
    "Bearer of-a-tool-server",
    "of-another-tool-server",
]
SETTINGS = Settings(
    auth=AuthSettings(api_key=SECRETS[0]),
    metrics=MetricsSettings(token=SECRETS[1]),
    providers={"demo": ProviderSection(env={"AGENT_API_KEY": SECRETS[2], "SHORT": "on"})},
    tools=ToolSettings(
        mcp={
            "a": {"url": "http://tools.example", "headers": {"Authorization": SECRETS[3]}},
            "b": {"command": ["tool-server"], "env": {"KEY": SECRETS[4]}},
        }
    ),
)


def record(text: str, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("ostler.test", logging.WARNING, "here", 1, text, (), None)
    vars(made).update(extra)
    return made


def as_json(made: logging.LogRecord, *patterns: str) -> dict[str, object]:
    line = LogLines(LogRedaction(secrets_in(SETTINGS), patterns), form="json", colours=False).format(made)
    found: dict[str, object] = json.loads(line)
    return found


@contextmanager
def untouched_logging() -> Iterator[None]:
    """What `set_up` does to the whole process is taken back."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        yield
    finally:
        for handler in list(root.handlers):
            root.removeHandler(handler)
        for handler in before:
            root.addHandler(handler)
        root.setLevel(level)


def test_a_line_says_what_when_and_on_whose_behalf() -> None:
    with on_behalf_of(RequestOrigin("req_1"), session_id="s"):
        line = as_json(record("it rains", facts={"wet": True}, place="here"))
    wanted = {"event": "it rains", "level": "warning", "logger": "ostler.test", "request_id": "req_1"}
    assert {**wanted, "session_id": "s", "wet": True, "place": "here"}.items() <= line.items()
    assert "request_id" not in as_json(record("later"))
    assert ORIGIN.get() is NONE


@pytest.mark.parametrize("form", ["json", "text"])
def test_w11_no_secret_of_the_configuration_gets_into_a_line_by_any_way(form: str) -> None:
    lines = LogLines(LogRedaction(secrets_in(SETTINGS), ["c[a-z]t"]), form=form, colours=False)
    try:
        int(f"refused {SECRETS[2]}")
    except ValueError:
        made = record(f"key {SECRETS[0]} {SECRETS[3]}", token=SECRETS[1], facts={"a": SECRETS[1:]}, animal="cat")
        made.exc_info = sys.exc_info()
    line = lines.format(made)
    assert [secret for secret in [*SECRETS, "cat"] if secret in line] == []
    assert "ValueError" in line
    assert "(hidden)" in line


def test_short_values_are_no_secrets() -> None:
    assert sorted(secrets_in(SETTINGS)) == sorted(SECRETS)


def test_secrets_are_found_at_any_depth() -> None:
    deep: object = {"token": "found-at-the-end"}
    for _ in range(5_000):
        deep = {"a": [deep]}
    assert secrets_in(deep) == ["found-at-the-end"]


def test_levels_of_single_loggers_are_set() -> None:
    with untouched_logging():
        set_up(Settings(log=LogSettings(level="warning", levels={"ostler.test.loud": "debug"})))
        assert logging.getLogger("ostler.test.loud").isEnabledFor(logging.DEBUG)
        assert not logging.getLogger("ostler.test.quiet").isEnabledFor(logging.INFO)


@pytest.mark.parametrize("given", [LogSettings(levels={"x": "loud"}), LogSettings(redact=["("])])
def test_a_level_or_a_pattern_that_means_nothing_stops_the_start(given: LogSettings) -> None:
    with untouched_logging(), pytest.raises(ConfigError, match="log"):
        set_up(Settings(log=given))


def test_a_trace_parent_is_taken_only_if_it_is_one() -> None:
    good = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    assert origin_of({b"traceparent": good}, "new").traceparent == good.decode()
    for bad in (b"00-" + b"0" * 32 + b"-b7ad6b7169203331-01", b"01-x", b""):
        assert origin_of({b"traceparent": bad}, "new") == RequestOrigin("new", "")


def test_each_pattern_has_groups_of_its_own() -> None:
    redaction = LogRedaction((), [r"(?P<twice>a)\1", r"(?P<twice>b)\1"])
    assert redaction("aa bb ab") == f"{HIDDEN} {HIDDEN} ab"
