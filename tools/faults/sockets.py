"""What the kernel knows of our TCP connections and nobody else tells: bytes that were written and not yet taken."""

from collections.abc import Iterable, Mapping
from pathlib import Path

TABLE = Path("/proc/net/tcp")


def unsent(port: int) -> Mapping[int, int]:
    """Bytes that wait on this side of a port's connections, by the port of the other side. IPv4."""
    return waiting(TABLE.read_text().splitlines()[1:], port)


def waiting(rows: Iterable[str], port: int) -> Mapping[int, int]:
    """The same, from the rows of the kernel's table: number, local, remote, state, `sending:receiving`, all in hex."""
    found: dict[int, int] = {}
    for row in rows:
        _, local, remote, _, queues, *_ = row.split()
        if number(local) == port:
            found[number(remote)] = int(queues.partition(":")[0], 16)
    return found


def number(address: str) -> int:
    """The port of an address as the table writes it."""
    return int(address.rpartition(":")[2], 16)
