"""API keys as an operator makes them, and the file they are kept in."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import copies
from tests.support.serve_command import command, environment, refused
from tests.support.served import text_of

BODY = {"model": "demo", "input": "hello"}


def ostler(folder: Path, *words: str, whole: bool = False) -> "subprocess.CompletedProcess[str]":
    line = [*words, "--data-dir", str(folder / "data")]
    return copies.run(line, cwd=folder, env=environment(folder, {}), whole=whole)


def made(folder: Path, name: str, *words: str) -> str:
    done = ostler(folder, "key", "new", name, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[0]


def test_keys_are_made_into_a_private_file_and_let_their_owners_in(tmp_path: Path) -> None:
    keys = {name: made(tmp_path, name, "--write") for name in ("alice", "bob")}
    file = tmp_path / "data" / "keys.toml"
    assert file.stat().st_mode & 0o777 == 0o600
    assert all(key not in file.read_text() for key in keys.values())
    assert ostler(tmp_path, "key", "list", whole=True).stdout.split() == ["alice", "bob"]
    with command(tmp_path) as running, running.http() as http:
        for key in keys.values():
            answer = http.post("/v1/responses", json=BODY, headers={"authorization": f"Bearer {key}"})
            assert text_of(answer.json()) == "echo: hello"
        assert http.post("/v1/responses", json=BODY).status_code == 401
        assert http.post("/v1/responses", json=BODY, headers={"authorization": "Bearer no"}).status_code == 401
    assert not any(key in str(line) for key in keys.values() for line in running.logged)


def test_the_first_key_makes_the_file_that_the_configuration_names(tmp_path: Path) -> None:
    file = tmp_path / "somewhere" / "else.toml"
    (tmp_path / "ostler.toml").write_text(f'[auth]\nkey_file = "{file}"\n')
    absent = ostler(tmp_path, "key", "list")
    assert (absent.returncode, "ostler key new NAME --write" in absent.stderr) == (1, True)
    made(tmp_path, "ann", "--write")
    assert file.stat().st_mode & 0o777 == 0o600
    assert ostler(tmp_path, "key", "list").stdout.split() == ["ann"]


def test_a_key_is_printed_once_with_the_table_to_paste(tmp_path: Path) -> None:
    done = ostler(tmp_path, "key", "new", "alice")
    key, table = done.stdout.splitlines()[0], done.stdout.partition("[[auth.keys]]")[2]
    assert not (tmp_path / "data" / "keys.toml").exists()
    (tmp_path / "ostler.toml").write_text(f'[pool]\npermissions = "deny"\n[[auth.keys]]{table}permissions = "allow"\n')
    with command(tmp_path) as running, running.http() as http:
        answer = http.post("/v1/responses", json={**BODY, "input": "!ask"}, headers={"authorization": f"Bearer {key}"})
        assert text_of(answer.json()) == "selected: allow_once"


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        ("", 0o644, "chmod 600"),
        ("[[keys]]\nname = 1\n", 0o600, "keys.toml"),
        ("[[keys]]\nnmae = 'x'\n", 0o600, "nmae"),
        ("keys = 5\n", 0o600, "[[keys]]"),
        ("no toml", 0o600, "is no TOML"),
        (f"[[keys]]\nname = 'x'\nsha256 = '{'0' * 64}'\npermissions = 'maybe'\n", 0o600, "maybe"),
    ],
)
def test_a_key_file_that_is_not_good_stops_the_start(tmp_path: Path, content: str, mode: int, said: str) -> None:
    file = tmp_path / "data" / "keys.toml"
    file.parent.mkdir()
    file.write_text(content)
    os.chmod(file, mode)  # noqa: PTH101 - the mode is what is tested
    done = refused(tmp_path)
    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (1, True, False), done.stderr


def test_names_that_are_taken_or_none_make_no_key(tmp_path: Path) -> None:
    made(tmp_path, "alice", "--write")
    for name in ("alice", "", "a b", 'x"'):
        done = ostler(tmp_path, "key", "new", name, "--write")
        assert (done.returncode, done.stdout) == (1, "")
        assert "key" in done.stderr
    named = refused(tmp_path, OSTLER_AUTH__KEY_FILE=str(tmp_path / "none.toml"))
    assert "none.toml" in named.stderr
