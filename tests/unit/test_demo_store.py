"""The demo agent's stored conversations."""

import os
import time
from pathlib import Path

from ostler.pool.demo.store import Store


def test_only_old_conversations_of_its_own_are_cleaned_up(tmp_path: Path) -> None:
    for name in ("my data.jsonl", "demo-old.jsonl", "demo-new.jsonl"):
        (tmp_path / name).write_text("{}\n")
    for name in ("my data.jsonl", "demo-old.jsonl"):
        os.utime(tmp_path / name, (time.time() - 40 * 86_400,) * 2)
    Store(str(tmp_path)).append("demo-1", "/", [("user", "hi")])
    assert {each.name for each in tmp_path.iterdir()} == {"my data.jsonl", "demo-new.jsonl", "demo-1.jsonl"}
