"""Commands that cannot do their work, or are not let finish it: one sentence or none, an exit code, never a trace."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import copies
from tests.support.serve_command import environment

FAILED, WRONG, INTERRUPTED = 1, 2, 130
SERVE, CHAT = ("serve", "--port", "0"), ("chat", "--once", "hi")
OWNER = Path(__file__).stat().st_uid
SOMEBODY = OWNER + 1
# The owner of this checkout, who can read the program wherever it lies. Where that is root, without the right to what
# belongs to others: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH leave the set that the next program can have.
AS_OWNER = (
    "import ctypes, os, sys\n"
    "if os.geteuid() == 0:\n"
    " libc = ctypes.CDLL(None, use_errno=True)\n"
    " assert [libc.prctl(24, right, 0, 0, 0) for right in (1, 2)] == [0, 0], os.strerror(ctypes.get_errno())\n"
    f" os.setresuid({OWNER}, {OWNER}, {OWNER})\n"
    "os.execv(sys.executable, [sys.executable, '-m', 'ostler.gateway', *sys.argv[1:]])"
)


def ostler(
    folder: Path, *words: str, start: tuple[str, ...] = (), **environ: str
) -> "subprocess.CompletedProcess[str]":
    """Run a command, with nothing of the tester's; begun in this way, if not as a copy."""
    if not start:
        return copies.run(words, cwd=folder, env=environment(folder, environ))
    return subprocess.run(
        [*start, *words],
        cwd=folder,
        env=environment(folder, environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def is_one_sentence(done: "subprocess.CompletedProcess[str]", *said: str) -> None:
    """Nothing but that."""
    assert (done.returncode, done.stdout) == (FAILED, ""), done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert [word for word in ("ostler ", *said) if word not in lines[0]] == [], lines[0]


def a_file(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / "data").mkdir(mode=0o700)
        (folder / "data" / name).touch()
        return folder / "data"

    return make


def a_folder(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / "data" / name).mkdir(parents=True, mode=0o700)
        return folder / "data"

    return make


def a_file_above(folder: Path) -> Path:
    (folder / "file").touch()
    return folder / "file" / "data"


@pytest.mark.parametrize(
    ("verb", "make", "said"),
    [
        (SERVE, a_file("work"), "/work: File exists; "),
        (SERVE, a_file("run"), "/run: "),
        (SERVE, a_folder("gateway.lock"), "/gateway.lock: Is a directory; "),
        (SERVE, a_file("bridge"), "/bridge: "),
        (SERVE, a_file_above, "/file/data: Not a directory; "),
        (SERVE, lambda _: Path("/proc/ostler"), "/proc/ostler: No such file or directory; "),
        (CHAT, a_file("bridge"), "/bridge: "),
        (CHAT, a_file_above, "/file/data: Not a directory; "),
    ],
    ids=["work", "run", "lock", "bridge", "above", "proc", "chat-bridge", "chat-above"],
)
def test_g04_a_data_folder_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, verb: tuple[str, ...], make: Callable[[Path], Path], said: str
) -> None:
    is_one_sentence(ostler(tmp_path, *verb, "--data-dir", str(make(tmp_path))), said)


@pytest.mark.parametrize("verb", [SERVE, ("config", "check"), ("doctor", "--no-start")])
def test_g04_n53_a_data_folder_of_somebody_else_is_one_sentence(tmp_path: Path, verb: tuple[str, ...]) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o000)
    if os.geteuid() == 0:
        os.chown(folder, SOMEBODY, SOMEBODY)
        for place in (tmp_path, *tmp_path.parents):
            if place.stat().st_uid == 0:
                place.chmod(stat.S_IMODE(place.stat().st_mode) | 0o011)
    done = ostler(tmp_path, *verb, "--data-dir", str(folder), start=(sys.executable, "-c", AS_OWNER))
    is_one_sentence(done, "Permission denied", "--data-dir")


@pytest.mark.parametrize("words", [SERVE, ("pool", "show")])
def test_g04_a_user_without_a_home_is_told_what_to_name(tmp_path: Path, words: tuple[str, ...]) -> None:
    homeless = (
        "import os, pwd, sys\n"
        "from ostler.gateway.__main__ import main\n"
        "def nobody(uid): raise KeyError(uid)\n"
        "pwd.getpwuid = nobody\n"
        "del os.environ['HOME']\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    is_one_sentence(ostler(tmp_path, *words, start=(sys.executable, "-c", homeless)), "OSTLER_DATA_DIR", "--data-dir")


@pytest.mark.parametrize("words", ["--help", "config show", "chat --once '!stream 3000'"])
def test_a_reader_that_has_seen_enough_is_no_failure(tmp_path: Path, words: str) -> None:
    ended = tmp_path / "code"
    line = f"( {sys.executable} -m ostler.gateway {words}; echo $? >{ended} ) | head -c 0"
    env = environment(tmp_path, {"OSTLER_DATA_DIR": str(tmp_path / "data")})
    said = subprocess.run(
        ["sh", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert (ended.read_text().strip(), said.stdout) == ("0", "")
    assert [word for word in ("Traceback", "BrokenPipe", "Broken pipe") if word in said.stderr] == []


@pytest.mark.parametrize(
    "words",
    ["serve --port 99999", "serve --port -1", "serve --port x", "sessions prune --days -1", "sessions prune --days nan"]
    + [f"chat --once hi --url {url}" for url in ("127.0.0.1:8787", "foo", "http://", "ftp://x", "unix:")],
)
def test_a_value_that_cannot_be_is_a_wrong_call(tmp_path: Path, words: str) -> None:
    done = ostler(tmp_path, *words.split())
    assert (done.returncode, done.stdout) == (WRONG, "")
    assert done.stderr.splitlines()[-1].startswith(f"ostler {words.split(maxsplit=1)[0]}")
    assert words.rsplit(maxsplit=1)[-1] in done.stderr.splitlines()[-1]


# Sent when so many modules were looked for: the command itself, its imports, those of the gateway that `chat` brings.
@pytest.mark.parametrize(
    ("words", "modules"), [("pool show", 0), ("pool show", 20), ("chat --once hi", 0), ("chat --once hi", 300)]
)
def test_ctrl_c_in_the_first_moments_is_silent_and_130(tmp_path: Path, words: str, modules: int) -> None:
    code = (
        "import os, signal, sys\n"
        "from ostler.gateway.__main__ import main\n"
        f"left = {modules}\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        global left\n"
        "        left -= 1\n"
        "        if left == -1: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    data = str(tmp_path / "data")
    done = ostler(tmp_path, *words.split(), start=(sys.executable, "-c", code), OSTLER_DATA_DIR=data)
    assert done.returncode in (-signal.SIGINT, INTERRUPTED)
    assert (done.stdout, done.stderr) == ("", "")
