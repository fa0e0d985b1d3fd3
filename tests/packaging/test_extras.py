"""No index has ostler: what we tell people to install is the library itself, as the extra of ours declares it."""

import tomllib
from pathlib import Path

from ostler.bridge.upstreams import remote
from ostler.gateway.memory import EXTRAS
from ostler.gateway.ops.gauges import traces

ROOT = Path(__file__).resolve().parents[2]
DECLARED: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]


def test_what_is_to_be_installed_is_what_is_declared() -> None:
    told = {name: [package] for name, (_, package) in EXTRAS.items()} | {"mcp": [remote.PACKAGE]}
    assert told | {"otel": DECLARED["otel"]} == DECLARED
    assert traces.EXTRA.endswith("pip install " + " ".join(f"'{package}'" for package in DECLARED["otel"]))


def test_nobody_is_sent_to_an_index_for_ostler() -> None:
    texts = [*ROOT.glob("docs/*.md"), *ROOT.glob("gateway/**/*.py"), *ROOT.glob("bridge/**/*.py"), ROOT / "README.md"]
    assert [str(file) for file in texts if "install 'ostler[" in file.read_text()] == []
