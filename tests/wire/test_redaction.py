"""What looks like a secret leaves by no sink: every pattern, each way that a text takes."""

import json
import logging
import re
from pathlib import Path

import pytest

from ostler.bridge import ToolError, open_bridge
from ostler.gateway.config.settings import Settings
from ostler.gateway.http.errors import of_outcome
from ostler.gateway.model.outcome import failed
from ostler.gateway.ops.log import LogLines, checked
from ostler.process.stderr import StderrTail
from ostler.wire.redaction import HIDDEN, Redaction, excerpt, redacted, without_keys

ROOT = Path(__file__).resolve().parents[2]
BODY = "a1B2c3D4e5F6g7H8i9J0"
MARKED = [
    f"sk-{BODY}",
    f"sk-ant-api03-{BODY}",
    f"sk_live_{BODY}",
    f"rk_live_{BODY}",
    f"xai-{BODY}",
    f"gsk_{BODY}",
    f"pplx-{BODY}",
    f"tvly-{BODY}",
    f"nvapi-{BODY}",
    *(f"xox{kind}-{BODY}" for kind in "abeoprs"),
    f"xapp-1-{BODY}",
    *(f"gh{kind}_{BODY}" for kind in "oprsu"),
    f"github_pat_{BODY}",
    f"glpat-{BODY}",
    f"hf_{BODY}",
    f"npm_{BODY}",
    f"pypi-{BODY}",
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    f"AIzaSy{BODY}",
    f"ya29.{BODY}",
    f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIi{BODY}.c2ln",
    f"postgres://me:{BODY}@host/db",
]
NAMED = [
    "0123456789abcdef" * 2,
    *(f"{name}={BODY}" for name in ("password", "passwd", "OPENAI_API_KEY", "client_secret", "access-token")),
    f"x-api-key: {BODY}",
    f"Authorization: Bearer {BODY}",
    f"authorization: Basic {BODY}",
    f'{{"token": "{BODY}"}}',
    json.dumps(f'{{"token": "{BODY}"}}'),
]
HARMLESS = [
    "token expired, 12 tokens left",
    "at main.js:10:3 in disk-management/task_scheduler",
    "https://user@host:8080/path?x=1",
    "no such file: /home/ann/sketches_of_the_house",
]


def part(sample: str) -> str:
    """What must not be seen of it."""
    found = re.search(BODY + r"|[0-9a-f]{32}|IOSFODNN7EXAMPLE", sample)
    assert found is not None, sample
    return found[0]


def log_line(text: str, form: str) -> str:
    made = logging.LogRecord("ostler.test", logging.WARNING, "here", 1, text, (), None)
    redaction = checked(Settings())
    return LogLines(redaction, form=form, colours=False).format(made)


def stderr_line(text: str) -> str:
    tail = StderrTail(Redaction())
    tail.feed(text.encode() + b"\n")
    return "".join(tail.tail())


def error_of_an_agent(text: str) -> str:
    return Redaction().excerpt(text, 500)


def error_of_a_turn(text: str) -> str:
    return str(of_outcome(failed("agent_error", text)))


def excerpt_of(text: str) -> str:
    return excerpt(text, 500)


async def tool_texts(text: str) -> list[str]:
    """What the model reads of a tool that says no, and of one that breaks."""

    def refuses() -> None:
        raise ToolError(text)

    def breaks() -> None:
        raise RuntimeError(text)

    async with open_bridge() as bridge:
        offer = bridge.offer([refuses, breaks])
        ticket = bridge.open(offer.definitions)
        ticket.publish(offer.definitions, offer.dispatcher)
        results = [await ticket.call(name, {}, call_id=name) for name in ("refuses", "breaks")]
    assert all(result.is_error for result in results)
    return [result.content[0]["text"] for result in results]


@pytest.mark.parametrize("sample", MARKED)
async def test_n55_what_has_the_mark_of_a_key_leaves_by_no_sink(sample: str) -> None:
    said = [f"{before}{sample} and more" for before in ("the key is ", "a=", '"', "%20", "\\n", "(")]
    seen = [log_line(text, form) for text in (*said, f"two lines\n{sample} and more") for form in ("json", "text")]
    seen += [sink(text) for text in said for sink in (stderr_line, error_of_an_agent, error_of_a_turn, excerpt_of)]
    seen += await tool_texts(said[0])
    assert [shown for shown in seen if part(sample) in shown or HIDDEN not in shown] == []
    assert all("and more" in shown for shown in seen)


@pytest.mark.parametrize("sample", NAMED)
async def test_n55_what_is_called_a_secret_leaves_by_no_text_of_an_agent_or_a_tool(sample: str) -> None:
    text = f"it said {sample} and more"
    seen = [sink(text) for sink in (stderr_line, error_of_an_agent, error_of_a_turn, excerpt_of)]
    seen += await tool_texts(text)
    assert [shown for shown in seen if part(sample) in shown or HIDDEN not in shown] == []


@pytest.mark.parametrize("text", HARMLESS)
def test_n55_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == without_keys(text) == stderr_line(text) == text


def test_n55_a_log_line_still_names_requests_and_traces() -> None:
    trace = "0123456789abcdef" * 2
    assert trace in log_line(f"req_{trace}", "json")


@pytest.mark.parametrize("piece", ["eyJ", "sk-", "://a:", "token = ", "bearer ", "\\n", "authorization: "])
def test_rf8_n55_redacting_takes_time_linear_in_a_text_from_outside(piece: str) -> None:
    """Quadratic, one of these would take a quarter of an hour, and the timeout would say so."""
    assert isinstance(redacted(piece * 200_000), str)


def test_n55_the_marks_of_keys_stand_in_one_file() -> None:
    marks = re.compile(r"gh\[|ghp_|github_pat|glpat|AKIA|AIza|xox")
    rooms = [path for room in ("wire", "pool", "bridge", "gateway", "metrics") for path in (ROOT / room).rglob("*.py")]
    holding = [str(path.relative_to(ROOT)) for path in rooms if marks.search(path.read_text())]
    assert holding == ["wire/redaction.py"], "a second list drifts: use ostler.wire.redaction"


def test_an_excerpt_of_much_white_space_is_empty() -> None:
    assert excerpt(" " * 100_000, 500) == ""
    assert excerpt("word " * 100_000, 12) == "word word wo"
