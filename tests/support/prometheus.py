"""A real Prometheus beside a test: found on PATH or unpacked by `make prometheus`, and skipped where there is none."""

import asyncio
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.plain_http import NO_AUTHORITIES
from tests.support.waiting import eventually, soon, within

ROOT = Path(__file__).resolve().parents[2]
UNPACKED = ROOT / ".cache" / "prometheus" / "usr" / "bin"


def tool(name: str) -> str:
    """Its path; the test is skipped without it."""
    found = shutil.which(name) or shutil.which(name, path=str(UNPACKED))
    if found is None:
        pytest.skip(f"{name} is neither on PATH nor in {UNPACKED.relative_to(ROOT)}: run `make prometheus`")
    return found


@dataclass
class Prometheus:
    """A running one."""

    http: httpx.AsyncClient

    async def query(self, expr: str) -> list[dict[str, Any]]:
        """What it answers now."""
        answer = await self.http.get("/api/v1/query", params={"query": expr})
        body = answer.json()
        assert body["status"] == "success", (expr, body)
        found: list[dict[str, Any]] = body["data"]["result"]
        return found

    async def seen(self, expr: str, what: str) -> None:
        """Wait until it knows something: it scrapes by its own clock."""
        async with within(300, what):
            while not await self.query(expr):  # noqa: ASYNC110 - nothing tells us when it has scraped, so we look
                await asyncio.sleep(0.2)


@asynccontextmanager
async def scraping(folder: Path, target: str) -> AsyncIterator[Prometheus]:
    """One that scrapes `host:port` every half second, with our alerts loaded."""
    config = folder / "prometheus.yml"
    config.write_text(
        f"global: {{scrape_interval: 500ms, scrape_timeout: 400ms, evaluation_interval: 1s}}\n"
        f"rule_files: ['{ROOT}/metrics/alerts.yml']\n"
        f"scrape_configs: [{{job_name: ostler, static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    log = folder / "prometheus.log"
    port = free_port()
    flags = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    process = started([tool("prometheus"), *flags, f"--web.listen-address=127.0.0.1:{port}"], log)
    try:
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", trust_env=False, verify=NO_AUTHORITIES
        ) as http:
            await eventually(lambda: b"Server is ready" in log.read_bytes(), "Prometheus serves")
            yield Prometheus(http)
    finally:
        process.terminate()
        await soon(asyncio.to_thread(process.wait), "Prometheus has ended")


def started(command: list[str], log: Path) -> "subprocess.Popen[bytes]":
    """With all that it says in a file."""
    with log.open("wb") as written:
        return subprocess.Popen(command, stdout=written, stderr=written)


def free_port() -> int:
    """One that nobody has at this moment; Prometheus does not tell which one it took."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port
