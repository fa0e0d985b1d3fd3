"""Contract: a process starts clean, shakes hands, and opens sessions."""

import asyncio
import os

import psutil
import pytest

from ostler.pool.provider import Provider, Sharing
from ostler.pool.providers import load
from tests.support.provider_harness import ProviderHarness, say
from tests.support.waiting import within
from tests.support.witness import arguments, environment, open_files


async def test_handshake(provider_harness: ProviderHarness) -> None:
    transport = await provider_harness.start()
    assert transport.info.name
    assert transport.info.version
    assert transport.lost is None
    assert (transport.sessions, transport.leaked) == (0, 0)
    assert transport.identity.pid == transport.pid
    assert psutil.pid_exists(transport.pid)
    assert await transport.probe(10)


async def test_session(provider_harness: ProviderHarness) -> None:
    transport = await provider_harness.start()
    session = await provider_harness.open(transport)
    assert session.id
    assert session.cwd == provider_harness.cwd()
    assert session.turn is None
    assert session.sealed is None
    assert (transport.sessions, transport.leaked) == (1, 0)


async def test_e05_no_secret_of_another_provider(provider_harness: ProviderHarness, provider: Provider) -> None:
    every = {name for known in load().values() for name in known.credentials}
    decoys = {name: f"decoy-{name}" for name in every}
    transport = await provider_harness.start(environ={**os.environ, **decoys})
    foreign = {f"decoy-{name}" for name in every - set(provider.credentials)}
    assert not foreign & set(environment(transport.pid).values())
    assert not [word for word in arguments(transport.pid) if "decoy-" in word or "sk-fake" in word]


async def test_child_inherits_nothing_but_its_three_pipes(provider_harness: ProviderHarness) -> None:
    decoy = os.pipe()
    try:
        for end in decoy:
            os.set_inheritable(end, True)
        transport = await provider_harness.start()
        ours, theirs = open_files(), open_files(transport.pid)
    finally:
        for end in decoy:
            os.close(end)
    shared = {
        target for target in theirs.values() if target in ours.values() and target.startswith(("pipe:", "socket:"))
    }
    assert shared == {theirs[0], theirs[1], theirs[2]}


async def test_m01_w29c_eight_opens_at_once_keep_their_own_tools(
    provider_harness: ProviderHarness, provider: Provider
) -> None:
    if provider.sharing is Sharing.NONE:
        pytest.skip("one session for each process")
    count = min(8, provider.seats_per_process)
    transport = await provider_harness.start()
    words = [f"canary-{number}" for number in range(count)]
    tickets = [provider_harness.tools("peek", word=word) for word in words]
    async with within(300, f"{count} sessions opened at once"), asyncio.TaskGroup() as opens:
        tasks = [
            opens.create_task(provider_harness.open(transport, cwd=cwd, ticket=ticket))
            for cwd, ticket in zip(provider_harness.cwds(count), tickets, strict=True)
        ]
    sessions = [task.result() for task in tasks]
    assert len({session.id for session in sessions}) == count
    heard = await asyncio.gather(*(say(session, "!call peek {}") for session in sessions))
    assert [[word for word in words if word in one.text] for one in heard] == [[word] for word in words]
