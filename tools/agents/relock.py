"""Make the lock files anew after a version in a manifest changed: `python -m tools.agents.relock`.

Rules:
- A lock names versions and hashes, and no host: npm is told to leave out where it found a package, and funding and
  deprecation notes (which hold URLs, and which `npm ci` does not read) are dropped. pip locks have no header.
- Where the registry at hand lacks a platform's package, its place is locked as one for no platform: `npm ci` wants a
  complete lock, and a package without a hash must not be installed anywhere.
- A new version is a new agent: run `make agents` before committing one.
"""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tools.agents.pins import PINS, NpmPin, Pin
from tools.clients.pins import CLIENTS

NOTES = ("funding", "deprecated", "resolved", "license")


def lock_npm(pin: NpmPin) -> str:
    """A fresh package-lock.json for the pin's package.json, made in a scratch folder."""
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copy(pin.manifest, scratch)
        command = [
            "npm",
            "install",
            "--package-lock-only",
            "--omit-lockfile-registry-resolved",
            "--no-audit",
            "--no-fund",
        ]
        subprocess.run(command, cwd=scratch, check=True)
        document: dict[str, Any] = json.loads(Path(scratch, "package-lock.json").read_text())
    packages: dict[str, dict[str, Any]] = document["packages"]
    for package in packages.values():
        for note in NOTES:
            package.pop(note, None)
    return json.dumps({**document, "packages": packages | unavailable(packages)}, indent=1) + "\n"


def unavailable(packages: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Entries for the optional packages that the registry did not have."""
    wanted = {
        f"node_modules/{name}": version
        for package in packages.values()
        for name, version in package.get("optionalDependencies", {}).items()
    }
    return {
        place: {"version": version.lstrip("^~"), "optional": True, "os": ["none"]}
        for place, version in sorted(wanted.items())
        if not any(known.endswith(place) for known in packages)
    }


def lock_pip(pin: Pin) -> str:
    """A fresh requirements.txt with hashes (needs `uv` on PATH)."""
    command = ["uv", "pip", "compile", "-q", "--universal", "--python-version", "3.11", "--no-header", "--no-annotate"]
    done = subprocess.run(
        [*command, "--generate-hashes", str(pin.manifest)], check=True, capture_output=True, text=True
    )
    return done.stdout


def main() -> None:
    for pin in (*PINS, *CLIENTS):
        text = lock_npm(pin) if isinstance(pin, NpmPin) else lock_pip(pin)
        if "://" in text:
            raise SystemExit(f"{pin.lock} would name a host; extend NOTES")
        pin.lock.write_text(text)


if __name__ == "__main__":
    main()
