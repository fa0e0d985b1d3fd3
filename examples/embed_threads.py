"""The same for a gateway made of threads: `BlockingPool` gives every thread its own sessions on shared processes.

python examples/embed_threads.py [PROVIDER [MODEL]]
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ostler.pool import TransportKey, open_pool
from ostler.pool.blocking import BlockingPool
from ostler.pool.events import Text


def ride(pool: BlockingPool, key: TransportKey, name: str) -> str:
    with pool.lease(key, owner=name) as lease:
        turn = lease.prompt(f"my name is {name}")
        return name + ": " + "".join([event.text for event in turn if isinstance(event, Text)])


def key_of(provider: str = "demo", model: str = "default") -> TransportKey:
    return TransportKey(provider, model, str(Path.cwd()))


def main(key: TransportKey) -> None:
    with BlockingPool(open_pool) as pool, ThreadPoolExecutor(4) as threads:
        answers = [threads.submit(ride, pool, key, name) for name in ("ann", "bob", "cy", "dee")]
        for answer in answers:
            print(answer.result())
        print(f"{len(pool.snapshot().processes)} process served 4 sessions")


if __name__ == "__main__":
    main(key_of(*sys.argv[1:]))
