"""The rules of the house that no linter knows, read from the syntax tree of every committed Python file.

A rule is a function from one node to a complaint or None, with samples that it must catch and samples that it must let
pass. An exception is one line in `ALLOWED`, with its reason; one that nothing needs any more fails too.
"""

import ast
import re
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

from tests.support.rooms import ROOMS

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = tuple(f"{room}/*" for room in ROOMS)
TESTS = ("tests/*", "tools/*")
FLOORS = ("chat", "http", "turns", "ops/console", "ops/gauges")
SERVING = ("pool/*", "process/*", "bridge/*", *(f"gateway/{floor}/*" for floor in FLOORS))
"""What runs on the loop that serves everybody."""
EVERYWHERE = ("*",)

STATEFUL = {"dict", "list", "set", "bytearray", "deque", "defaultdict", "Counter", "OrderedDict", "count", "cycle"}
STATEFUL |= {"WeakKeyDictionary", "WeakValueDictionary", "WeakSet", "Lock", "Event", "Queue", "local"}
HEAVY = {"acp", "acplint", "agents", "mcp", "mcp_types", "openai", "openresponses_types", "pydantic", "schemathesis"}
LOOKS = {"resolve", "exists", "is_dir", "is_file", "is_symlink", "stat", "lstat", "iterdir", "glob", "rglob"}
LOOKS |= {"read_text", "read_bytes", "write_text", "write_bytes", "mkdir", "rmdir", "unlink", "samefile", "readlink"}
LOOKS |= {"realpath", "isdir", "isfile", "islink", "listdir", "scandir"}
CALLS = {"open", "os.open", "os.access", "os.walk", "shutil.which", "shutil.rmtree", "socket.getaddrinfo"}
NO_PATHS = {"models", "_models", "self"}
CHANGES = {"append", "extend", "insert", "add", "update", "setdefault", "pop", "popitem", "remove", "discard", "clear"}


@dataclass(frozen=True)
class Allowed:
    """An exception from a rule, for the files of one pattern."""

    rule: str
    files: str
    reason: str


ALLOWED: tuple[Allowed, ...] = (
    Allowed(
        "blanket_except", "gateway/http/application.py", "the border to HTTP: logged whole, answered as a 500 envelope"
    ),
    Allowed("blanket_except", "gateway/turns/session.py", "the border of a turn: logged whole, its client is told"),
    Allowed("blanket_except", "gateway/turns/reports.py", "logged whole: an observer's fault is not the client's"),
    Allowed("blanket_except", "gateway/stores/sqlite/writer.py", "logged whole: a counter's fault is not the writer's"),
    Allowed(
        "blanket_except", "gateway/ops/checks.py", "logged whole: one check's fault keeps no other from being made"
    ),
    Allowed("blanket_except", "pool/observer.py", "logged whole: an observer's fault is not the pool's"),
    Allowed("blocking_disk", "gateway/chat/resets/policies.py", "/etc/localtime, once at the start"),
    Allowed("blocking_disk", "bridge/leftovers.py", "at the start, in the runtime folder that is our own"),
    Allowed("blocking_disk", "bridge/peers.py", "/proc, which has no disk"),
    Allowed("blocking_disk", "bridge/session_binding.py", "where a module of ours lies, at import"),
    Allowed("blocking_disk", "bridge/socket_path.py", "at start and stop, in the runtime folder that is our own"),
    Allowed("blocking_disk", "bridge/upstreams/leash.py", "/proc, which has no disk"),
    Allowed("blocking_disk", "bridge/upstreams/process.py", "where a module of ours lies, at import"),
    Allowed("blocking_disk", "gateway/config/keys.py", "at the start, and on the thread that reads the keys again"),
    Allowed("blocking_disk", "gateway/ops/console/operator.py", "`one_name` runs on a thread, by `Looks`"),
    Allowed(
        "blocking_disk", "gateway/ops/console/place.py", "in commands, and once at start; the data folder is our own"
    ),
    Allowed("blocking_disk", "gateway/ops/console/html_page.py", "the package's own files, once at start"),
    Allowed("blocking_disk", "gateway/server/admin_socket.py", "at the stop; the data folder is our own"),
    Allowed("blocking_disk", "gateway/ops/gauges/census.py", "one stat of the database that this process has open"),
    Allowed("blocking_disk", "pool/launch/finder.py", "runs where launches are built, on a thread, by `Looks`"),
    Allowed("blocking_disk", "pool/keys.py", "runs where directories are looked at, on a thread, by `Looks`"),
    Allowed("blocking_disk", "pool/launch/logins.py", "runs where launches are built, on a thread, by `Looks`"),
    Allowed("blocking_disk", "pool/agent/record_archive.py", "records are moved on a thread, by `Looks`"),
    Allowed("blocking_disk", "pool/permission_facts.py", "`inside` runs on a thread, by `Looks`"),
    Allowed("blocking_disk", "process/folder.py", "opened on a thread, by `Looks`; the rest is /proc"),
    Allowed("blocking_disk", "process/ledger.py", "small files in the runtime folder that is our own"),
    Allowed("blocking_disk", "process/start_refusals.py", "`_look_again` runs on a thread, by `BlockingProbe`"),
    Allowed("blocking_disk", "process/recovery.py", "/proc, which has no disk"),
    Allowed("blocking_disk", "process/tree.py", "/proc, which has no disk"),
    Allowed("unowned_task", "process/supervisor.py", "`hold` is an owner: it keeps its tasks and sees them fail"),
    Allowed("unowned_task", "pool/agent/transport.py", "`hold` is an owner: it keeps its tasks and sees them fail"),
    Allowed(
        "unowned_task", "pool/agent/opening.py", "a race of two waits in one function, which cancels both at its end"
    ),
    Allowed(
        "sleeping_test", "tests/process/spawning/kill_cycles.py", "the random moment of the kill is the experiment"
    ),
    Allowed(
        "sleeping_test", "tests/gateway/chat/faces/test_tool_crash.py", "the random moment of the kill is the point"
    ),
    Allowed("unowned_task", "bridge/runner.py", "an owner: it keeps every running call and cancels them at its stop"),
    Allowed("unowned_task", "bridge/server.py", "the one accepting task, cancelled and awaited by `stop`"),
    Allowed("unowned_task", "pool/tasks.py", "the owner of the pool's tasks"),
    Allowed("unowned_task", "pool/pool.py", "the shutdown is one task that every caller awaits, shielded from each"),
    Allowed(
        "starts_process", "bridge/upstreams/*.py", "the bridge never imports the pool; no preexec_fn, group-killed"
    ),
    Allowed("unowned_task", "bridge/upstreams/*.py", "every task is awaited or cancelled by the block that made it"),
    Allowed("unowned_task", "bridge/toolbelt.py", "a sync tool's thread outlives its caller; its place waits for it"),
    Allowed("unowned_task", "bridge/channels/http.py", "the one serving task, awaited by `stop`"),
    Allowed("sleeping_test", "tools/conformance/server.py", "fixture tools of the suite are to take a while"),
    Allowed("sleeping_test", "tests/bridge/upstreams/test_upstreams.py", "waits on other processes, with a deadline"),
    Allowed("sleeping_test", "tests/support/*.py", "waits on other processes, which send no events, with a deadline"),
    Allowed("sleeping_test", "tools/fake_llm/server.py", "a scripted pause is part of the script"),
    Allowed("sleeping_test", "tests/contracts/test_loading.py", "agents write their records by their own clock"),
    Allowed("sleeping_test", "tests/bridge/test_attacks.py", "a slow attacker is slow; counters send no event"),
    Allowed("sleeping_test", "tools/soak/*.py", "random moments are the experiment; other processes send no event"),
    Allowed("sleeping_test", "tools/faults/*.py", "random moments are the experiment; other processes send no event"),
    Allowed("sleeping_test", "tools/churn/*.py", "random moments are the experiment; other processes send no event"),
    Allowed("sleeping_test", "tools/fuzz/targets/tools.py", "a client that stays for a while before it leaves"),
    Allowed("sleeping_test", "tests/bridge/test_relay.py", "shows that nothing happens for a while"),
)


def name_of(node: ast.expr) -> str:
    """`asyncio.create_task` for that expression; calls and subscripts on the way are left out."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            return f"{name_of(value)}.{attr}"
        case ast.Call(func=func):
            return name_of(func)
        case _:
            return ""


def last(name: str) -> str:
    return name.rpartition(".")[2]


def blanket_except(node: ast.AST, source: list[str]) -> str | None:
    if not isinstance(node, ast.ExceptHandler):
        return None
    caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    blanket = any(kind is None or last(name_of(kind)) in {"Exception", "BaseException"} for kind in caught)
    if not blanket or any(isinstance(inner, ast.Raise) for part in node.body for inner in ast.walk(part)):
        return None
    # The linter wants the mark on this line; the reason beside the mark is the affair of `noqa_without_reason`.
    return None if "noqa: BLE001" in source[node.lineno - 1] else "swallows everything: re-raise, map or give a reason"


def getattr_literal(node: ast.AST, source: list[str]) -> str | None:
    if isinstance(node, ast.Call) and name_of(node.func) == "getattr" and isinstance(node.args[1], ast.Constant):
        return "getattr with a literal name: say what type it has"
    return None


def module_state(node: ast.AST, source: list[str]) -> str | None:
    """A filled table under an upper-case name that nobody changes is a constant; the rest is state."""
    if not isinstance(node, ast.Module):
        return None
    changed = set(changed_names(node))
    for part in node.body:
        targets = (
            part.targets if isinstance(part, ast.Assign) else [part.target] if isinstance(part, ast.AnnAssign) else []
        )
        value = part.value if isinstance(part, ast.Assign | ast.AnnAssign) else None
        for target in targets:
            name = name_of(target)
            table = isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp)
            empty = (isinstance(value, ast.Dict) and not value.keys) or (isinstance(value, ast.List) and not value.elts)
            stateful = isinstance(value, ast.Call) and last(name_of(value.func)) in STATEFUL
            if stateful or (table and (empty or name in changed or not name.isupper()) and name != "__all__"):
                return f"{name} (line {part.lineno}) is module-level mutable state"
    return next((f"global {name}" for name in changed if name.startswith("global ")), None)


def changed_names(module: ast.Module) -> Iterable[str]:
    for node in ast.walk(module):
        match node:
            case ast.Global(names=names):
                yield from (f"global {name}" for name in names)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if attr in CHANGES:
                yield name
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                yield name
            case _:
                pass


def environ_change(node: ast.AST, source: list[str]) -> str | None:
    """What one turn puts there, the turn of another session finds there (W5)."""
    match node:
        case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()) if name_of(value) == "os.environ":
            return "the environment of the process belongs to every session"
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if name_of(value) == "os.environ" and attr in CHANGES:
            return f"os.environ.{attr}: the environment of the process belongs to every session"
        case ast.Call(func=func) if name_of(func) in {"os.putenv", "os.unsetenv"}:
            return f"{name_of(func)}: the environment of the process belongs to every session"
        case _:
            return None


def forked_subprocess(node: ast.AST, source: list[str]) -> str | None:
    if isinstance(node, ast.Attribute | ast.Name) and last(name_of(node)).startswith("create_subprocess_"):
        return "blocks the loop: spawning is process only"
    if isinstance(node, ast.keyword) and node.arg == "preexec_fn":
        return "preexec_fn forks the whole process"
    return None


def starts_process(node: ast.AST, source: list[str]) -> str | None:
    starters = {"Popen", "check_output", "check_call", "system", "fork", "posix_spawn", "posix_spawnp"}
    if not isinstance(node, ast.Call):
        return None
    name = name_of(node.func)
    if last(name) in starters or name in {"subprocess.run", "subprocess.call"}:
        return f"{name}: processes are started in process/spawn.py"
    return None


def unowned_task(node: ast.AST, source: list[str]) -> str | None:
    if not isinstance(node, ast.Call):
        return None
    owner, _, verb = name_of(node.func).rpartition(".")
    loose = last(owner) in {"asyncio", "_loop", "loop", "get_running_loop", "get_event_loop"}
    if verb in {"create_task", "ensure_future"} and (loose or not owner):
        return f"{owner}.{verb}: a task belongs to a TaskGroup or to an owner that awaits it"
    return None


def sleeping_test(node: ast.AST, source: list[str]) -> str | None:
    if not isinstance(node, ast.Call) or name_of(node.func) not in {"time.sleep", "asyncio.sleep", "sleep"}:
        return None
    yields = bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
    return None if yields and name_of(node.func) == "asyncio.sleep" else "a test waits for an event, not for a while"


def mocking(node: ast.AST, source: list[str]) -> str | None:
    modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    if "unittest.mock" in modules or (isinstance(node, ast.ImportFrom) and node.module == "unittest"):
        return "fakes over mocks"
    if isinstance(node, ast.Attribute) and name_of(node) == "monkeypatch.setattr":
        return "fakes are passed in, internals are not patched"
    return None


def heavy_import(node: ast.AST, source: list[str]) -> str | None:
    if not isinstance(node, ast.Module):
        return None
    for part in node.body:
        names = [alias.name for alias in part.names] if isinstance(part, ast.Import) else []
        names += [part.module or ""] if isinstance(part, ast.ImportFrom) else []
        if heavy := {name.partition(".")[0] for name in names} & HEAVY:
            return f"{heavy} (line {part.lineno}): every worker that collects pays for it; import it where it is used"
    return None


def noqa_without_reason(node: ast.AST, source: list[str]) -> str | None:
    if not isinstance(node, ast.Module):
        return None
    mark = re.compile(r"#\s*(?:noqa(?::\s*[A-Z]+\d+(?:\s*,\s*[A-Z]+\d+)*)?|type:\s*ignore(?:\[[\w, -]+\])?)(.*)")
    for number, line in enumerate(source, 1):
        found = mark.search(line)
        if found and len(found[1].strip(" #-(:")) < 6:
            return f"line {number}: a silenced check says why, beside it"
    return None


def opened_database(node: ast.AST, source: list[str]) -> str | None:
    """POSIX drops all locks of a process on a file when the process closes any descriptor of it (n18)."""
    opens = {"open", "os.open", "io.open", "shutil.copy", "shutil.copy2", "shutil.copyfile"}
    methods = {"read_bytes", "read_text", "write_bytes", "write_text"}
    if not isinstance(node, ast.Call):
        return None
    name = name_of(node.func)
    if name in opens or last(name) in methods or (last(name) == "open" and last(name.rpartition(".")[0]) == "path"):
        return f"{name}: opens what SQLite may have open, and with its close the locks are gone; `stat` opens nothing"
    return None


def second_sqlite(node: ast.AST, source: list[str]) -> str | None:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    if "sqlite3" in names:
        return "two SQLite libraries in one process drop each other's locks: apsw only"
    return None


def loop_without_rounds(node: ast.AST, source: list[str]) -> str | None:
    """Whatever it does between two sleeps may raise, and would end it for ever (n17)."""
    if not (isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value is True):
        return None
    sleeps = any(isinstance(part, ast.Expr) and "asyncio.sleep" in ast.unparse(part) for part in node.body)
    ends = any(isinstance(inner, ast.Return | ast.Break) for part in node.body for inner in ast.walk(part))
    rounds = any(isinstance(part, ast.With) and ".round()" in ast.unparse(part) for part in node.body)
    if sleeps and not ends and not rounds:
        return "a loop for ever makes each of its rounds inside `Loop.round` (metrics/loops.py)"
    return None


def blocking_disk(node: ast.AST, source: list[str]) -> str | None:
    """A path may lie on a mount that is dead, and a look there never comes back (N42)."""
    if not isinstance(node, ast.Call):
        return None
    name = name_of(node.func)
    owner, _, verb = name.rpartition(".")
    of_path = isinstance(node.func, ast.Attribute) and verb in LOOKS and last(owner) not in NO_PATHS
    return (
        f"{name} may wait for a dead disk: look on a thread, by `ostler.process.probe`"
        if of_path or name in CALLS
        else None
    )


Check = Callable[[ast.AST, list[str]], str | None]


@dataclass(frozen=True)
class Rule:
    """A rule, where it holds, where it is at home, and the pairs (caught, passed) that prove it."""

    check: Check
    files: tuple[str, ...]
    samples: tuple[tuple[str, str], ...]
    homes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.check.__name__


RULES = (
    Rule(
        blanket_except,
        EVERYWHERE,
        (
            ("try: f()\nexcept (OSError, Exception) as error: log(error)", "try: f()\nexcept OSError: pass"),
            ("try: f()\nexcept: pass", "try: f()\nexcept Exception as error: raise Lost() from error"),
        ),
    ),
    Rule(getattr_literal, EVERYWHERE, (("getattr(x, 'a', None)", "getattr(x, name)"),)),
    Rule(
        module_state,
        PRODUCT,
        (
            ("seen: dict[str, int] = {}", "KINDS = {'a': 1}\ndef f():\n    seen = {}"),
            ("KINDS = {'a': 1}\ndef f(): KINDS['b'] = 2", "__all__ = ['a']"),
            ("IDS = itertools.count()", "class A:\n    ids = itertools.count()"),
            ("N = 1\ndef f():\n    global N\n    N += 1", "N = 1"),
        ),
    ),
    Rule(
        environ_change,
        PRODUCT,
        (
            ("os.environ['KEY'] = key", "environ = {**os.environ, 'KEY': key}"),
            ("del os.environ['KEY']", "os.environ.get('KEY')"),
            ("os.environ.pop('KEY', None)", "given = os.environ['KEY']"),
            ("os.putenv('KEY', key)", "os.getenv('KEY')"),
        ),
    ),
    Rule(
        forked_subprocess,
        PRODUCT,
        (
            ("await asyncio.create_subprocess_exec('x')", "spawn('x')"),
            ("Popen(['x'], preexec_fn=f)", "Popen(['x'])"),
        ),
    ),
    Rule(
        starts_process,
        PRODUCT,
        (("subprocess.Popen(['x'])", "platform.system"), ("subprocess.run(['x'])", "asyncio.run(main())")),
        homes=("process/spawn.py", "demo/*"),
    ),
    Rule(
        unowned_task,
        PRODUCT,
        (
            ("asyncio.create_task(f())", "group.create_task(f())"),
            ("asyncio.get_running_loop().create_task(f())", "self._group.create_task(f())"),
        ),
    ),
    Rule(
        blocking_disk,
        SERVING,
        (
            ("def f(cwd): return Path(cwd).resolve()", "def f(name): return self.models.resolve(name)"),
            ("os.path.realpath(cwd)", "looks.find(cwd, partial(one_name, cwd), 5.0)"),
            ("with open(name) as file: pass", "await asyncio.to_thread(path.exists)"),
            ("socket.getaddrinfo(host, 80)", "await loop.getaddrinfo(host, 80)"),
        ),
        homes=("demo/*", "process/reaper/*"),
    ),
    Rule(
        sleeping_test,
        TESTS,
        (("await asyncio.sleep(0.1)", "await asyncio.sleep(0)"), ("time.sleep(0)", "event.wait()")),
    ),
    Rule(
        mocking,
        TESTS,
        (
            ("from unittest.mock import patch", "import unittest"),
            ("monkeypatch.setattr('a.b', 1)", "monkeypatch.setenv('A', '1')"),
        ),
    ),
    Rule(
        heavy_import,
        TESTS,
        (
            ("import openai", "if TYPE_CHECKING:\n    import openai"),
            ("from acp.schema import Error", "def f():\n    from acp import schema"),
        ),
    ),
    Rule(
        opened_database,
        ("gateway/stores/sqlite/*", "gateway/memory/notebook.py"),
        (
            ("os.close(os.open(path, os.O_RDWR))", "os.mknod(path)"),
            ("self._path.read_bytes()", "self._path.stat()"),
            ("path.open('rb')", "SqliteStore.open(path)"),
        ),
    ),
    Rule(second_sqlite, PRODUCT, (("import sqlite3", "import apsw"), ("from sqlite3 import connect", "import sqlite"))),
    Rule(
        loop_without_rounds,
        PRODUCT,
        (
            (
                "while True:\n    await asyncio.sleep(1)\n    look()",
                "while True:\n    await asyncio.sleep(1)\n    with loop.round():\n        look()",
            ),
            ("while True:\n    look()\n    await asyncio.sleep(1)", "while True:\n    if look():\n        return"),
        ),
    ),
    Rule(
        noqa_without_reason,
        EVERYWHERE,
        (
            ("x = 1  # " + "noqa: S101", "x = 1  # " + "noqa: S101 - the reason"),
            ("x = 1  # type: " + "ignore[misc]", "x = 1  # a type that we ignore"),
        ),
    ),
)


def complaints(text: str, *rules: Rule) -> dict[str, list[str]]:
    """By the name of the rule; the tree is walked once for all of them."""
    lines = text.splitlines()
    found: dict[str, list[str]] = {rule.name: [] for rule in rules}
    for node in ast.walk(ast.parse(text)):
        for rule in rules:
            if (said := rule.check(node, lines)) is not None:
                found[rule.name].append(f"{vars(node).get('lineno', 1)}: {said}")
    return found


@cache
def heard() -> dict[str, dict[str, list[str]]]:
    """What every rule says of every committed file, whether it is in force there or not."""
    return {name: complaints((ROOT / name).read_text(), *RULES) for name in committed()}


@cache
def committed() -> tuple[str, ...]:
    """Every Python file that is or will be committed."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.split("\n")
    return tuple(name for name in listed if name and (ROOT / name).is_file())


def matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_catches_its_samples_and_lets_the_others_pass(rule: Rule) -> None:
    for caught, passed in rule.samples:
        assert complaints(caught, rule)[rule.name], caught
        assert complaints(passed, rule)[rule.name] == [], passed


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_house_keeps_the_rule(rule: Rule) -> None:
    exempt = (*rule.homes, *(allowed.files for allowed in ALLOWED if allowed.rule == rule.name))
    broken = [
        f"{name}:{said}"
        for name in committed()
        if matches(name, rule.files) and not matches(name, exempt)
        for said in heard()[name][rule.name]
    ]
    assert broken == []


def test_every_exception_is_still_needed_and_says_why() -> None:
    idle = [
        allowed
        for allowed in ALLOWED
        if len(allowed.reason) < 10
        or not any(heard()[name][allowed.rule] for name in committed() if fnmatch(name, allowed.files))
    ]
    assert idle == []


def test_w14b_a_launch_is_built_at_one_place() -> None:
    callers = {
        name
        for name in committed()
        if matches(name, PRODUCT)
        for node in ast.walk(ast.parse((ROOT / name).read_text()))
        if isinstance(node, ast.Call) and name_of(node.func) == "launch"
    }
    # The doctor builds one to look at it, and starts none by it.
    assert callers == {"pool/launch/edition.py", "gateway/ops/doctor/visit.py"}


def test_every_decision_has_a_number_of_its_own_and_says_it() -> None:
    records = sorted((ROOT / "docs" / "adr").glob("*.md"))
    numbers = [int(record.name.partition("-")[0]) for record in records]
    assert len(set(numbers)) == len(numbers), [record.name for record in records]
    titles = [record.read_text().partition("\n")[0] for record in records]
    assert [title.startswith(f"# {number}. ") for number, title in zip(numbers, titles, strict=True)] == [True] * len(
        records
    )
