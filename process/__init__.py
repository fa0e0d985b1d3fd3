"""Child processes for agents. Linux only (pidfd, `/proc`).

Rules:
- A start is fast, and the event loop never blocks on a process.
- No process of an agent outlives the gateway (`reaper`, `ledger`, `recovery`).
- Imports only wire; `pool` and `gateway` import this room.
"""

from ostler.process.command import Command
from ostler.process.ending import Ending, Exit, StopDeadlines
from ostler.process.environment import build_environment
from ostler.process.errors import (
    CommandError,
    KeeperClosed,
    MissingDirectory,
    MissingProgram,
    NotPermitted,
    NotRunnable,
    ProcessError,
    ResourcesExhausted,
    RuntimeDirError,
    StartError,
    StdinClosed,
    Survivors,
)
from ostler.process.process import AgentProcess, ProcessListener
from ostler.process.reaper.proc import ProcessIdentity as ProcessIdentity
from ostler.process.supervisor import ProcessSupervisor
from ostler.process.tree import TreeMemory

__all__ = [
    "AgentProcess",
    "Command",
    "CommandError",
    "Ending",
    "Exit",
    "KeeperClosed",
    "MissingDirectory",
    "MissingProgram",
    "NotPermitted",
    "NotRunnable",
    "ProcessError",
    "ProcessIdentity",
    "ProcessListener",
    "ProcessSupervisor",
    "ResourcesExhausted",
    "RuntimeDirError",
    "StartError",
    "StdinClosed",
    "StopDeadlines",
    "Survivors",
    "TreeMemory",
    "build_environment",
]
