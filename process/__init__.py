"""Agent processes: start fast, are never blocked on, and never survive us. Linux only (pidfd, `/proc`)."""

from ostler.process.command import Command
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
from ostler.process.exit import Ending, Exit
from ostler.process.process import AgentProcess, ProcessListener
from ostler.process.reaper.proc import ProcessIdentity as ProcessIdentity
from ostler.process.stop_sequence import StopDeadlines
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
