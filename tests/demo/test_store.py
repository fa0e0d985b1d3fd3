"""The demo agent's stored conversations."""

import os
import time
from pathlib import Path

import pytest

from ostler.demo.store import DemoStore


def test_only_old_conversations_of_its_own_are_cleaned_up(tmp_path: Path) -> None:
    for name in ("my data.jsonl", "demo-old.jsonl", "demo-new.jsonl"):
        (tmp_path / name).write_text("{}\n")
    for name in ("my data.jsonl", "demo-old.jsonl"):
        os.utime(tmp_path / name, (time.time() - 40 * 86_400,) * 2)
    DemoStore(str(tmp_path)).append("demo-1", "/", [("user", "hi")])
    assert {each.name for each in tmp_path.iterdir()} == {"my data.jsonl", "demo-new.jsonl", "demo-1.jsonl"}


def test_w41d_a_conversation_that_cannot_be_kept_whole_is_not_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = DemoStore(str(tmp_path))
    for session in ("demo-1", "demo-2"):
        store.append(session, "/", [("user", "one"), ("assistant", "echo: one")])
    file = tmp_path / "demo-1.jsonl"
    file.unlink()
    file.symlink_to("/dev/full")
    store.append("demo-1", "/", [("user", "two")])
    store.append("demo-1", "/", [("user", "three")])
    assert (store.load("demo-1"), sorted(each.name for each in tmp_path.iterdir())) == (None, ["demo-2.jsonl"])
    assert "demo-1 is not kept" in capsys.readouterr().err
    store.append("demo-2", "/", [("user", "two")])
    assert store.load("demo-2") == ("/", [("user", "one"), ("assistant", "echo: one"), ("user", "two")])
