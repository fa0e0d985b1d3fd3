"""The official conformance scenarios against our server, as a table: `python -m tools.conformance [SCENARIO...]`.

Rules: every scenario of the suite is in the table; one that is new to it fails the run until somebody decides. What
does not apply says why. Without node or npm nothing is run, and that is said, not hidden. The pinned version is the
newest that runs on node 20; later ones want node 22.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
MANIFEST = HERE / "npm" / "package.json"
LOCK = HERE / "npm" / "package-lock.json"
DEADLINE = 120

APPLY = (
    "server-initialize",
    "ping",
    "logging-set-level",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content",
    "tools-call-with-logging",
    "tools-call-error",
    "tools-call-with-progress",
    "json-schema-2020-12",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
)
_TOOLS_ONLY = "the bridge offers tools, and does not announce this capability"
_NO_REQUESTS = "the bridge asks its clients for nothing: what a tool needs to ask goes through the gateway"
DO_NOT_APPLY = {
    **dict.fromkeys(("resources-list", "resources-read-text", "resources-read-binary"), _TOOLS_ONLY),
    **dict.fromkeys(("resources-templates-read", "resources-subscribe", "resources-unsubscribe"), _TOOLS_ONLY),
    **dict.fromkeys(("prompts-list", "prompts-get-simple", "prompts-get-with-args"), _TOOLS_ONLY),
    **dict.fromkeys(("prompts-get-embedded-resource", "prompts-get-with-image"), _TOOLS_ONLY),
    "completion-complete": _TOOLS_ONLY,
    "tools-call-sampling": _NO_REQUESTS,
    "tools-call-elicitation": _NO_REQUESTS,
    "elicitation-sep1034-defaults": _NO_REQUESTS,
    "elicitation-sep1330-enums": _NO_REQUESTS,
    "server-sse-polling": "streams are not resumable: a loopback connection that breaks has lost its agent too",
}


def cache_folder() -> Path:
    """Where installs are kept between runs; the same place as the agents'."""
    chosen = os.environ.get("OSTLER_AGENT_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ostler" / "agents"


def install() -> Path:
    """The suite, installed once per lock file: made beside its place and renamed into it."""
    home = cache_folder() / f"mcp-conformance-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"
    if home.is_dir():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".mcp-conformance-") as scratch:
        folder = Path(scratch) / "install"
        folder.mkdir()
        for source in (MANIFEST, LOCK):
            shutil.copy(source, folder)
        command = ["npm", "ci", "--omit=dev", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
        subprocess.run(command, cwd=folder, check=True, timeout=600, stdout=subprocess.DEVNULL)
        if not home.is_dir():
            folder.rename(home)
    return home


@contextmanager
def server() -> Iterator[str]:
    command = [sys.executable, "-m", "tools.conformance.server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


def run(program: list[str], scenario: str, url: str) -> tuple[bool, str]:
    """Whether it passed, and the checks it counted, or what it said."""
    with tempfile.TemporaryDirectory() as results:
        done = subprocess.run(
            [*program, "server", "--url", url, "--scenario", scenario],
            cwd=results, timeout=DEADLINE, check=False, text=True, capture_output=True,
        )  # fmt: skip
    said = done.stdout + done.stderr
    counted = re.search(r"Passed: (\d+)/(\d+)[^\n]*", said)
    passed = done.returncode == 0 and counted is not None and int(counted[1]) > 0 and counted[1] == counted[2]
    return passed, counted[0] if passed and counted else said.strip()


def known(program: list[str]) -> set[str]:
    listed = subprocess.run([*program, "list", "--server"], check=True, text=True, capture_output=True).stdout
    return set(re.findall(r"^  - (\S+)", listed.partition("Client scenarios")[0], re.MULTILINE))


def main(wanted: list[str]) -> int:
    if shutil.which("node") is None or shutil.which("npm") is None:
        print("conformance: skipped, there is no node and npm on PATH")
        return 0
    program = ["node", str(install() / "node_modules/@modelcontextprotocol/conformance/dist/index.js")]
    undecided = known(program) ^ {*APPLY, *DO_NOT_APPLY}
    failed = sorted(undecided)
    version = json.loads(MANIFEST.read_text())["dependencies"]["@modelcontextprotocol/conformance"]
    print(f"@modelcontextprotocol/conformance {version}, server scenarios")
    with server() as url:
        for scenario in wanted or APPLY:
            passed, said = run(program, scenario, url)
            print(f"  {'pass' if passed else 'FAIL'}  {scenario}: {said}")
            failed += [] if passed else [scenario]
    for scenario, reason in () if wanted else DO_NOT_APPLY.items():
        print(f"  n/a   {scenario}: {reason}")
    for scenario in sorted(undecided):
        print(f"  FAIL  {scenario}: nobody has decided whether it applies")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
