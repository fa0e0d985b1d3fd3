"""What must hold right before a prompt is sent; the prompt is not sent otherwise.

Rules:
- The session's directory still leads where it did at its opening. Agents know a directory by its name only.
- The agent's pipe takes bytes.
- The process lives: after a prompt to one that has exited unnoticed, the caller could not tell whether it was read.
"""

from typing import Protocol

from ostler.pool.agent.connection import AgentConnection
from ostler.pool.errors import BadDirectory, Phase, TransportLost
from ostler.pool.order import SeatOrder


class PromptHost(Protocol):
    """What the checks need of a transport."""

    connection: AgentConnection

    async def wait_lost(self) -> TransportLost: ...


async def require_sendable(host: PromptHost, order: SeatOrder) -> None:
    """Raise `BadDirectory`, `AgentSilent` or `TransportLost`. Does not suspend where all is well."""
    await require_in_place(order)
    await host.connection.wait_writable("prompt", Phase.IDLE)
    if host.connection.gone():
        await host.wait_lost()
        raise host.connection.lost(Phase.IDLE)


async def require_in_place(order: SeatOrder) -> None:
    """Raise `BadDirectory` if the session's path leads to another directory than at its opening. A directory that does
    not exist leads nowhere else; the agent reports that itself. Does not suspend while nothing has changed.
    """
    if order.folder is None:
        return
    try:
        await order.folder.confirm()
    except FileNotFoundError:
        return
    except OSError as error:
        raise BadDirectory(order.cwd, error.strerror or str(error)) from error
