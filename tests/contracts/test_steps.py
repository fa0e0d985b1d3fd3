"""The last of the README's three steps, as its reader takes it: the commands, in processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

from ostler.pool.provider import Provider
from tests.support.agent_gateway import allowed
from tools.agents.recipes import Recipe


def ostler(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """The command of a user whose configuration and data are here."""
    environ = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    environ |= {"HOME": str(folder), "OSTLER_CONFIG": str(folder / "ostler.toml")}
    return subprocess.run(
        [sys.executable, "-m", "ostler.gateway", *words, "--data-dir", str(folder / "data")],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def configuration(provider: Provider, recipe: Recipe) -> str:
    """What the recipe says, as a user writes it."""
    known = recipe.settings
    env = ", ".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in known.env.items())
    free = ", ".join(f"{json.dumps(name)} = {json.dumps(word)}" for name, word in allowed(provider).items())
    lines = [
        f"[pool]\nmodel_permissions = {{{free}}}",
        f"[providers.{provider.name}]",
        f"home = {json.dumps(known.home)}" if known.home else "",
        f"env = {{{env}}}",
    ]
    return "\n".join([*lines, f"command = {json.dumps(known.command)}" if known.command else "", ""])


def test_the_steps_lead_to_an_answer(provider: Provider, recipe: Recipe, tmp_path: Path) -> None:
    (tmp_path / "ostler.toml").write_text(configuration(provider, recipe))
    called = provider.short or provider.name
    judged = ostler(tmp_path, "doctor", called, "--no-canary", "--model", recipe.model)
    assert judged.returncode == 0, judged.stdout + judged.stderr
    said = ostler(tmp_path, "chat", "--once", "hello", "--model", f"{called}/{recipe.model}")
    assert (said.returncode, said.stdout.strip()) == (0, "echo: hello"), said.stderr
