"""`acpx` as a person runs it: one command, one prompt, one temporary session on an agent of its own.

Rules: the same agent, environment and HOME contents as everybody's, without tools (the command line has none to give),
so it has less to do. Measured from its start to the first byte of the answer.
"""

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter


async def first_answer(
    acpx: Path, agent: Sequence[str], environ: Mapping[str, str], cwd: str, prompt: str
) -> tuple[float, str]:
    """Seconds to the first byte, and the whole answer."""
    began = perf_counter()
    process = await asyncio.create_subprocess_exec(
        "node",
        str(acpx / "node_modules/acpx/dist/cli.js"),
        *("--agent", shlex.join(agent), "--cwd", cwd, "--format", "quiet", "--approve-all", "exec", prompt),
        cwd=cwd,
        env=dict(environ),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    first = await process.stdout.read(1)
    seconds = perf_counter() - began
    rest, said = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"acpx ended with {process.returncode}: {said.decode(errors='replace')[-500:]}")
    return seconds, (first + rest).decode().strip()
