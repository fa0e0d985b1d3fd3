"""The published OpenAPI document against the running gateway: nothing it allows makes the gateway fail."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.support.served import serving

CHECKS = "not_a_server_error,response_schema_conformance,status_code_conformance,content_type_conformance"


@pytest.mark.long
async def test_z05_no_request_the_document_describes_makes_it_fail(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", auth__per_minute=1_000_000) as served:
        run = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("schemathesis")),
            *("run", f"{served.base}/openapi.json", "--checks", CHECKS, "--no-color"),
            *("--max-examples", "8", "--phases", "coverage,fuzzing", "--seed", "1"),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await run.communicate()
        assert run.returncode == 0, said.decode()
        document = (await served.http.get("/openapi.json")).json()
        operations = sum(len(path) for path in document["paths"].values())
        assert f"Tested: {operations}" in said.decode()
        assert (await served.http.get("/healthz")).status_code == 200
