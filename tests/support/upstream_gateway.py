"""A gateway that runs one shared tool server, prints two pids (server and helper), and waits to be killed."""

import asyncio
import sys

from ostler.bridge.calls import ToolCall
from ostler.bridge.upstreams.settings import UpstreamSettings
from ostler.bridge.upstreams.shared import Upstreams


async def main(command: tuple[str, ...]) -> None:
    servers = Upstreams([UpstreamSettings(name="small", command=command)])
    await servers.start()
    upstream = servers.shared[0]
    pids = []
    for name in ("small_whoami", "small_spawn"):
        answered = await upstream.call(ToolCall(name, {}, "1", None, lambda *_: None, lambda *_: None))
        pids.append(answered.content[0]["text"])
    sys.stdout.write(" ".join(pids) + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(tuple(sys.argv[1:])))
