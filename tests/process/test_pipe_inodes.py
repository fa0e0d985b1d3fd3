"""Who holds an agent's pipes: this very process, with pipes of its own."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ostler.process.reaper.pipe_inodes import PipeInodes, find_holders
from ostler.process.reaper.proc import MarkedProcesses, Stat
from ostler.process.reaper.signals import ProcessTree

US = os.getpid()
NOBODY = 4_194_305
"""More than any pid can be."""


@contextmanager
def pipes() -> Iterator[tuple[tuple[int, int], tuple[int, int], tuple[int, int]]]:
    """Stdin, stdout and stderr of an agent: (reading end, writing end) of each."""
    three = (os.pipe(), os.pipe(), os.pipe())
    try:
        yield three
    finally:
        for end in (end for pair in three for end in pair):
            with_closed(end)


def with_closed(end: int) -> None:
    """Close it unless the test did."""
    try:
        os.close(end)
    except OSError:
        return


def test_w30d_whoever_holds_one_of_the_agents_ends_is_known_by_it() -> None:
    for kept in range(3):
        with pipes() as (stdin, stdout, stderr):
            inodes = PipeInodes.of((stdin[0], stdout[1], stderr[1]))
            for number, end in enumerate((stdin[0], stdout[1], stderr[1])):
                if number != kept:
                    os.close(end)
            assert find_holders([US, NOBODY], [inodes]) == {US}


def test_w32_the_gateways_own_ends_prove_nothing() -> None:
    """A fork of the gateway's host program holds them after its death, and is none of ours."""
    with pipes() as (stdin, stdout, stderr):
        theirs = (stdin[0], stdout[1], stderr[1])
        inodes = PipeInodes.of(theirs)
        for end in theirs:
            os.close(end)
        assert find_holders([US], [inodes]) == set()


def test_w32_another_pipe_is_nobodys_leash() -> None:
    with pipes() as (stdin, stdout, stderr):
        inodes = PipeInodes.of((stdin[0], stdout[1], stderr[1]))
        assert find_holders([US], [PipeInodes(inodes.stdin + 1_000_000, 1, 2)]) == set()
        assert find_holders([US], []) == set()


def test_w30d_a_holder_is_kin_with_all_its_children() -> None:
    seen = {pid: Stat(pid, ppid, pid, 5, dead=False) for pid, ppid in ((10, 1), (11, 10), (20, 1))}
    found = ProcessTree("gw-1-2.", (), vouched=True).find(MarkedProcesses(seen, {}), {10})
    assert {stat.pid for stat in found} == {10, 11}
