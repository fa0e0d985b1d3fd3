"""The suite as on other people's machines: `python -m tools.strangers_machine --times 3`.

Each run is `make test` in a fresh clone of HEAD: in a private folder and in a public one, as the user who asks and, if
that is root, as an ordinary user; without TMPDIR, beside a load (`stress-ng --cpu 8`). What it made is removed; the log
of a run that failed is kept and named.

Rules: only processes that were started here are ended, by their process group. The ordinary user needs a Python that
they may run: `--python`, by default Debian's. The configuration of pip is handed on.
"""

import argparse
import itertools
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODES = {"private": 0o700, "public": 0o755}
RESULT = re.compile(r"^=+ .*(?:passed|failed|error).* =+$", re.MULTILINE)


@dataclass(frozen=True)
class Stranger:
    """Who runs the suite, and where."""

    mode: str
    user: pwd.struct_passwd
    place: Path
    python: str

    @property
    def checkout(self) -> Path:
        return self.place / "ostler"

    def __str__(self) -> str:
        return f"{self.mode} checkout of {self.user.pw_name}"

    def run(self, line: Sequence[str], log: Path) -> int:
        """A command in the checkout, with nothing of the caller's environment but the way to programs and packages."""
        home = self.place / "home"
        given = {name: os.environ[name] for name in os.environ if name.startswith("PIP_")}
        config = self.place / "pip.conf"
        environ = {**given, "PATH": os.defpath + ":/usr/local/bin", "LANG": "C.UTF-8", "HOME": str(home)}
        environ |= {"USER": self.user.pw_name, **({"PIP_CONFIG_FILE": str(config)} if config.exists() else {})}
        other = self.user.pw_uid != os.geteuid()
        with log.open("ab") as out:
            return subprocess.run(
                line,
                cwd=self.checkout,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                user=self.user.pw_uid if other else None,
                group=self.user.pw_gid if other else None,
                extra_groups=[] if other else None,
                check=False,
            ).returncode


def strangers(folder: Path, ordinary: str, python: str) -> Iterator[Stranger]:
    """Each with a clone of their own."""
    users = {os.geteuid(), pwd.getpwnam(ordinary).pw_uid} if os.geteuid() == 0 else {os.geteuid()}
    for mode, uid in itertools.product(MODES, sorted(users)):
        place = folder / f"{mode}-{uid}"
        (place / "home").mkdir(parents=True)
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(place / "ostler")], check=True)
        config = Path.home() / ".config/pip/pip.conf"
        if config.exists():
            shutil.copyfile(config, place / "pip.conf")
        if uid != os.geteuid():
            gid = pwd.getpwuid(uid).pw_gid
            for each in (place, *place.rglob("*")):
                os.chown(each, uid, gid, follow_symlinks=False)
        place.chmod(MODES[mode])
        yield Stranger(mode, pwd.getpwuid(uid), place, python)


@contextmanager
def load(processes: int) -> Iterator[None]:
    """So many that only compute, for as long as the block lasts; 0 for none."""
    if not processes:
        yield
        return
    hogs = subprocess.Popen(["stress-ng", "--quiet", "--cpu", str(processes)], start_new_session=True)
    try:
        yield
    finally:
        os.killpg(hogs.pid, signal.SIGTERM)
        hogs.wait()


def main(words: Sequence[str] | None = None) -> int:
    """How many runs failed."""
    asked = argparse.ArgumentParser(prog="python -m tools.strangers_machine", description=__doc__)
    asked.add_argument("--times", type=int, default=1, help="runs of each stranger")
    asked.add_argument("--load", type=int, default=8, help="processes that compute meanwhile; 0 for a calm machine")
    asked.add_argument("--user", default="nobody", help="the ordinary user, where root asks")
    asked.add_argument("--python", default="/usr/bin/python3", help="an interpreter that this user may run")
    asked.add_argument("--only", default="", help="those whose name contains this, as in 'private checkout of root'")
    given = asked.parse_args(words)
    folder, failed = Path(tempfile.mkdtemp(prefix="strangers-", dir="/tmp")), 0
    folder.chmod(0o755)
    for stranger in strangers(folder, given.user, given.python):
        if given.only not in str(stranger):
            shutil.rmtree(stranger.place)
            continue
        log = folder / f"{stranger.place.name}.log"
        if stranger.run(["make", "--no-print-directory", "setup", f"PYTHON={stranger.python}"], log):
            print(f"{stranger}: the setup failed, see {log}", flush=True)
            return 1
        for number in range(given.times):
            log = folder / f"{stranger.place.name}-{number + 1}.log"
            with load(given.load):
                code = stranger.run(["make", "--no-print-directory", "test"], log)
            said = RESULT.findall(log.read_text(errors="replace")) or [f"no result, see {log}"]
            print(
                f"{stranger}, load {given.load}, run {number + 1}: exit code {code}; {said[-1].strip('= ')}", flush=True
            )
            failed += code != 0
            if code == 0:
                log.unlink()
            else:
                print(f"  {log}", flush=True)
        shutil.rmtree(stranger.place)
    if not failed:
        shutil.rmtree(folder)
    return failed


if __name__ == "__main__":
    sys.exit(main())
