"""Agent processes: start fast, are never blocked on, and never survive us. Linux only (pidfd, `/proc`)."""

from ostler.pool.process.command import Command
from ostler.pool.process.environment import build_environment
from ostler.pool.process.errors import (
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
from ostler.pool.process.exit import Ending, Exit
from ostler.pool.process.keeper import ProcessSupervisor
from ostler.pool.process.ladder import StopDeadlines
from ostler.pool.process.process import AgentProcess, ProcessListener
from ostler.pool.process.reaper.kin import ProcessIdentity as ProcessIdentity
from ostler.pool.process.tree import TreeMemory

__all__ = [
    "AgentProcess",
    "Command",
    "CommandError",
    "Ending",
    "Exit",
    "ProcessSupervisor",
    "KeeperClosed",
    "MissingDirectory",
    "MissingProgram",
    "NotPermitted",
    "NotRunnable",
    "ProcessError",
    "ProcessIdentity",
    "ProcessListener",
    "ResourcesExhausted",
    "RuntimeDirError",
    "StartError",
    "StdinClosed",
    "StopDeadlines",
    "Survivors",
    "TreeMemory",
    "build_environment",
]
