"""`docs/configuration.md` from the typed settings, the tables of `docs/agents.md` from the providers: `make reference`.

Rules:
- A key's type, default and limits are read from the settings themselves; its meaning is the string below its field.
- A key without a meaning is an error: a setting that nobody can explain is not offered.
- Nothing is written by hand into the result; a test compares it with what is committed.
"""

import ast
import inspect
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import dedent
from typing import get_args

from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from ostler.gateway.config import settings as module
from ostler.gateway.config.settings import CHOICES, RULES, SECRET, Settings
from ostler.pool.provider import Level, LoadTrust, Provider, Sharing
from ostler.pool.providers import load

DOCS = Path(__file__).resolve().parents[1] / "docs"
FILE, AGENTS = DOCS / "configuration.md", DOCS / "agents.md"

HEAD = """\
# Configuration

Made by `make reference` from `gateway/config/settings.py`; a test compares the two. Do not edit it.

The file is the one that `--config` names, else `OSTLER_CONFIG`; where neither does, `./ostler.toml`, else `ostler.toml`
in the data folder. The environment beats the file, the command line beats both. Lists and tables in the environment are
JSON, an empty variable counts as not set. A key that nothing reads is an error that names the nearest one. `ostler
config check` says what is wrong without starting anything, `ostler config show` prints what is in force, secrets left
out.

Short names: `OSTLER_API_KEY` is `auth.api_key`, `OSTLER_TRANSPORT_POOL_ENABLED` is `pool.enabled`. `OSTLER_DATA_DIR` is
the data folder and stands in no file.

Seconds, bytes and counts; a limit is above zero and never means unlimited. A dash is: not set.
"""

KINDS = {
    "Seconds": "seconds",
    "Age": "seconds",
    "Hour": "hour, 0 to 23",
    "PositiveInt": "count",
    "Amount": "count",
    "Port": "port",
    "str": "text",
    "bool": "true or false",
    "list[str]": "list of text",
    "dict[str, str]": "table of text",
    "dict[str, Amount]": "table of numbers",
    "dict[str, dict[str, str]]": "table of tables",
    "dict[str, dict[str, Any]]": "table of tables",
}
BYTES = {"body_limit", "answer_room", "replay_bytes", "memory_budget"}
WORDS = {
    **CHOICES,
    "pool.permissions": RULES,
    "auth.keys.permissions": RULES,
    "providers.<name>.approval": ("ask", "auto", "agent"),
}


class Undocumented(Exception):
    """A setting has no meaning."""


@dataclass(frozen=True)
class Section:
    """One table of the file."""

    path: str
    kind: type[Struct]
    head: str
    """How it is opened in TOML."""
    variable: str | None
    """What the names of its variables begin with; None where only the whole list can be given, as JSON."""


def sections(kind: type[Struct] = Settings, path: str = "", variable: str | None = "OSTLER") -> Iterator[Section]:
    """Every table, those inside a table behind it."""
    if path:
        yield Section(path, kind, f"[{path}]", variable)
    for field in fields(kind):
        name = f"{path}.{field.name}" if path else field.name
        inner = part_of(field)
        if inner is None:
            continue
        given = None if variable is None else f"{variable}{'__' if path else '_'}{field.name.upper()}"
        shape = str(field.type)
        if shape.startswith("list["):
            yield Section(name, inner, f"[[{name}]]", None)
        elif shape.startswith("dict["):
            yield from sections(inner, f"{name}.<name>", given and f"{given}__<NAME>")
        else:
            yield from sections(inner, name, given)


def part_of(field: FieldInfo) -> type[Struct] | None:
    """The settings inside a field, if that is what it holds."""
    kinds = [field.type, *get_args(field.type)]
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Struct)), None)


def words_of(kind: type[Struct]) -> dict[str, tuple[str, str]]:
    """(annotation, meaning) of each field, as they stand in the source."""
    (body,) = ast.parse(dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    found: dict[str, tuple[str, str]] = {}
    last = ""
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            last = node.target.id
            found[last] = (ast.unparse(node.annotation), "")
        elif last and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            found[last] = (found[last][0], " ".join(str(node.value.value).split()))
            last = ""
    return found


def default_of(field: FieldInfo) -> str:
    """As it would stand in the file."""
    if field.default_factory is not NODEFAULT:
        value = field.default_factory()
    elif field.default is not NODEFAULT:
        value = field.default
    else:
        return "required"
    return "–" if value is None or value in ([], {}, "") else f"`{json.dumps(value)}`"


def row(section: Section, field: FieldInfo, annotation: str, meaning: str) -> str:
    """One key."""
    key = f"{section.path}.{field.name}"
    if not meaning:
        raise Undocumented(f"{key}: say what it means in a string below it, in {module.__name__}")
    kind = annotation.removesuffix(" | None")
    words = WORDS.get(key)
    shown = "bytes" if field.name in BYTES else KINDS[kind]
    if words:
        shown = ", ".join(words)
    if field.name in SECRET and section.path != "tools":
        meaning += " Secret."
    variable = "–" if section.variable is None else f"`{section.variable}__{field.name.upper()}`"
    return f"| `{field.name}` | {shown} | {default_of(field)} | {meaning.replace('|', '/')} | {variable} |"


def table(section: Section) -> str:
    """One section."""
    words = words_of(section.kind)
    keys = [field for field in fields(section.kind) if part_of(field) is None]
    lines = [f"## `{section.head}`", "", " ".join((section.kind.__doc__ or "").split()), ""]
    if section.variable is None:
        whole = f"OSTLER_{section.path.upper().replace('.', '__')}"
        lines += [f"In the environment the whole list is one value, `{whole}`, as JSON.", ""]
    lines += ["| key | type | default | meaning | environment |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *(row(section, field, *words[field.name]) for field in keys)])


def models() -> str:
    """`[models]` has no fixed keys."""
    return (
        '## `[models]`\n\nAliases: `name = "provider/model"`. In the environment `OSTLER_MODELS__<NAME>`. A client may '
        "ask for an alias, for `provider/model`, or for a provider alone."
    )


def text() -> str:
    """The whole file."""
    return "\n\n".join([HEAD.rstrip(), models(), *(table(section) for section in sections())]) + "\n"


SHARED = {Sharing.SESSIONS: "many", Sharing.PER_CWD: "one per directory", Sharing.NONE: "one"}
INSTALL_HEAD = ("agent", "called", "measured at", "install", "keys", "files below HOME")
SHARING_HEAD = (
    *("agent", "sessions in one process", "at most", "replaced after", "a session ends by", "tools by"),
    "goes on after a death by",
)
ENDED = {"none": "nothing", "session_close": "`session/close`", "kill": "its process", "unsubscribe_archive": "archive"}


def real_agents() -> list[Provider]:
    """Those of ours that are found by their own command and were measured."""
    return [one for one in load().values() if one.measured]


def install_row(one: Provider) -> str:
    """How a person gets it."""
    keys, files = (" ".join(f"`{name}`" for name in names) for names in (one.credentials, one.credential_files))
    called = f"`{one.short or one.name}`"
    return f"| `{one.name}` | {called} | {one.measured} | `{one.install}` | {keys} | {files} |"


def sharing_row(one: Provider) -> str:
    """What the pool makes of it."""
    replaced = "–" if one.recycle_after is None else f"{one.recycle_after} sessions"
    channels = ", ".join(sorted(channel.value for channel in one.tool_channels))
    ended, resumed = ENDED[one.close.value], resumption(one.load)
    facts = (one.title, SHARED[one.sharing], str(one.seats_per_process), replaced, ended, channels, resumed)
    return f"| {' | '.join(facts)} |"


def resumption(trust: LoadTrust) -> str:
    """When its own record is believed."""
    if not trust.offered:
        return "transcript"
    if trust.next_minute:
        return "load, from the next minute on"
    return f"load, after {trust.settle:g} s of calm" if trust.settle else "load"


def put(document: str, mark: str, rows: list[str]) -> str:
    """The document with these rows between its marks."""
    begin, end = f"<!-- {mark}: begin -->\n", f"<!-- {mark}: end -->"
    before, _, rest = document.partition(begin)
    _, _, after = rest.partition(end)
    return "".join([before, begin, *(f"{row}\n" for row in rows), end, after])


def level_rows() -> list[str]:
    """What becomes of four deeds at each level, agent by agent."""
    rows = []
    for one in real_agents():
        for level in Level:
            found = one.levels.get(level)
            words = ["the agent is refused", "–", "–", "–"] if found is None else list(asdict(found).values())
            rows.append(f"| {one.title} | `{level.value}` | {' | '.join(words)} |")
    return rows


def agents(document: str) -> str:
    """`docs/agents.md` with its tables as the providers declare them."""
    for mark, head, row_of in (("agents", INSTALL_HEAD, install_row), ("sharing", SHARING_HEAD, sharing_row)):
        document = put(
            document, mark, [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *map(row_of, real_agents())]
        )
    head = ("agent", "level", "write inside", "write outside", "run a command", "reach the network")
    return put(document, "levels", [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *level_rows()])


if __name__ == "__main__":
    FILE.write_text(text())
    AGENTS.write_text(agents(AGENTS.read_text()))
    print(f"{FILE.name}: {len(text().splitlines())} lines; {AGENTS.name}: {len(real_agents())} agents")
