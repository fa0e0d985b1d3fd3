"""Nothing committed names a registry, a machine of ours or where a locked file was fetched from."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Put together here, so that this file does not name them either.
FORBIDDEN = (
    *(".".join(host) for host in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmmirror", "com"))),
    *(".".join(host) for host in (("yarnpkg", "com"), ("crates", "io"), ("jfrog", "io"), ("pkg", "dev"))),
    *(f"/{folder}/" for folder in ("work", "root")),
    f'"{"resol" + "ved"}":',
    "--index-" + "url",
)


def committed() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def found(text: str) -> list[str]:
    return [
        f"{number}: {word}"
        for word in FORBIDDEN
        if word in text
        for number, line in enumerate(text.splitlines(), 1)
        if word in line
    ]


def test_no_committed_text_names_a_registry_or_a_machine_of_ours() -> None:
    texts = {name: (ROOT / name).read_bytes() for name in committed()}
    readable = {name: raw.decode(errors="replace") for name, raw in texts.items() if b"\0" not in raw[:1024]}
    assert len(readable) > 20
    assert [f"{name}:{hit}" for name, text in readable.items() for hit in found(text)] == []


@pytest.mark.parametrize("word", FORBIDDEN)
def test_each_word_is_found_where_it_stands(word: str) -> None:
    assert found(f"first line\nsee {word} for more") == [f"2: {word}"]
