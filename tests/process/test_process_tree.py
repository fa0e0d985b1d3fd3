"""Who belongs to an agent, over made-up process tables."""

import os

from hypothesis import given
from hypothesis import strategies as st

from ostler.process.reaper.proc import MarkedProcesses, ProcessIdentity, Stat, find_members, parse_stat, read_stat
from ostler.process.reaper.signals import ProcessTree

AGENT = ProcessIdentity(100, 50)


def table(*stats: tuple[int, int, int, int]) -> dict[int, Stat]:
    return {pid: Stat(pid, ppid, sid, start, dead=False) for pid, ppid, sid, start in stats}


def test_w30a_descendants_of_the_agent_are_kin() -> None:
    seen = table((1, 0, 1, 0), (100, 1, 100, 50), (101, 100, 100, 51), (102, 101, 102, 52), (7, 1, 7, 60))
    assert find_members(seen, (), [AGENT], vouched=True) == {100, 101, 102}


def test_w30b_an_orphan_of_the_session_is_kin_though_its_agent_is_gone() -> None:
    seen = table((1, 0, 1, 0), (101, 1, 100, 51), (102, 101, 102, 52))
    assert find_members(seen, (), [AGENT], vouched=True) == {101, 102}


def test_w32_without_a_voucher_a_leaderless_session_proves_nothing() -> None:
    seen = table((101, 1, 100, 51))
    assert find_members(seen, (), [AGENT], vouched=False) == set()


def test_a_marked_member_vouches_for_its_session() -> None:
    seen = table((101, 1, 100, 51), (102, 1, 100, 52))
    assert find_members(seen, {102}, [AGENT], vouched=False) == {101, 102}


def test_w32_a_recycled_pid_is_no_kin_and_neither_is_its_session() -> None:
    seen = table((100, 1, 100, 90), (101, 100, 100, 91))
    assert find_members(seen, (), [AGENT], vouched=True) == set()


def test_w32_a_member_older_than_the_agent_is_no_kin() -> None:
    assert find_members(table((99, 1, 100, 49)), (), [AGENT], vouched=True) == set()


def test_w30c_a_daemon_is_kin_by_its_marker_with_its_children() -> None:
    seen = table((200, 1, 200, 60), (201, 200, 200, 61))
    assert find_members(seen, {200}, [AGENT], vouched=True) == {200, 201}


stats = st.builds(Stat, st.integers(2, 30), st.integers(1, 30), st.integers(1, 30), st.integers(0, 9), st.just(False))
tables = st.lists(stats, max_size=20).map(lambda found: {stat.pid: stat for stat in found})
identities = st.builds(ProcessIdentity, st.integers(2, 30), st.integers(1, 9))
"""Without the start time 0: that is a ward nobody could look at, which leads its own session."""


@given(tables, st.lists(identities, max_size=4), st.booleans())
def test_w32_whoever_is_kin_has_a_bond(seen: dict[int, Stat], tracked: list[ProcessIdentity], vouched: bool) -> None:
    members = find_members(seen, (), tracked, vouched=vouched)
    for pid in members:
        stat = seen[pid]
        by_session = any(stat.sid == member.pid and stat.start >= member.start for member in tracked)
        assert stat.identity in tracked or by_session or stat.ppid in members
    for member in tracked:
        if member.pid in seen and seen[member.pid].identity not in tracked and not by_other_bond(seen, members, member):
            assert member.pid not in members


def by_other_bond(seen: dict[int, Stat], members: set[int], member: ProcessIdentity) -> bool:
    stat = seen[member.pid]
    return (
        stat.ppid in members or stat.sid != member.pid or any(seen[p].sid == member.pid for p in members - {member.pid})
    )


def test_a_name_full_of_parentheses_and_spaces_is_no_field() -> None:
    fields = " ".join(["S", "7", "8", "9", *["0"] * 13, "1", "0", "4242", *["0"] * 20])
    stat = parse_stat(5, f"5 (a) b (c 1) {fields}".encode())
    assert stat == Stat(5, ppid=7, sid=9, start=4242, dead=False)


def test_we_find_ourselves() -> None:
    stat = read_stat(os.getpid())
    assert stat is not None
    assert (stat.ppid, stat.sid, stat.dead) == (os.getppid(), os.getsid(0), False)


def test_a_mark_names_one_spawn_and_its_prefix_all_of_the_run() -> None:
    census = MarkedProcesses({}, {1: "gw-1-2.1", 2: "gw-1-2.11", 3: "gw-1-3.1"})
    assert census.marked("gw-1-2.1") == {1}
    assert census.marked("gw-1-2.") == {1, 2}


def test_w30d_a_family_vouches_for_whom_it_saw_a_moment_ago() -> None:
    """An agent of a dead gateway is seen, forks a child without marker in a group of its own, and is gone."""
    agent = Stat(500, ppid=1, sid=500, start=10, dead=False)
    bare = Stat(501, ppid=1, sid=500, start=12, dead=False)
    stranger = Stat(700, ppid=1, sid=700, start=12, dead=False)
    tree = ProcessTree("gw-1-2.", (), vouched=False)
    assert tree.find(MarkedProcesses({500: agent, 700: stranger}, {500: "gw-1-2.1"})) == [agent]
    assert tree.find(MarkedProcesses({501: bare, 700: stranger}, {})) == [bare]
    assert ProcessTree("gw-1-2.", (agent.identity,), vouched=False).find(MarkedProcesses({501: bare}, {})) == []


def test_w30d_a_ward_of_whom_only_the_pid_was_told_is_known_by_its_session() -> None:
    told = ProcessIdentity(100, 0)
    seen = table((1, 0, 1, 0), (100, 1, 100, 50), (101, 1, 100, 51))
    assert find_members(seen, (), [told], vouched=True) == {100, 101}
    assert find_members(seen, (), [told], vouched=False) == set()
    assert find_members(table((101, 1, 100, 51)), (), [told], vouched=True) == {101}
    assert find_members(table((100, 1, 7, 50)), (), [told], vouched=True) == set()
