"""Which connection makes room for a new one."""

import random
import resource

import pytest

from ostler.gateway.http.connections import ConnectionPhase, Connections, TooManyConnections
from ostler.gateway.server.listener import LEAST_CONNECTIONS, connections_allowed


def full(*places: tuple[str, str, ConnectionPhase]) -> Connections[str]:
    """As many as there may be, opened in this order: name, address, and what each is about."""
    connections = Connections[str](len(places))
    for name, peer, _ in places:
        connections.admit(name, peer)
    for name, _, phase in places:
        connections.turn(name, phase)
    return connections


def test_n32_the_one_that_was_idle_longest_makes_room() -> None:
    connections = full(
        ("a", "", ConnectionPhase.IDLE), ("b", "", ConnectionPhase.IDLE), ("c", "", ConnectionPhase.ANSWERED)
    )
    connections.turn("a", ConnectionPhase.ANSWERED)
    connections.turn("a", ConnectionPhase.IDLE)
    assert [connections.admit(name, "") for name in "de"] == ["b", "a"]
    assert (len(connections), connections.evicted) == (3, 2)


def test_n32_the_address_with_most_connections_loses_its_own() -> None:
    connections = full(
        ("a", "one", ConnectionPhase.IDLE), ("b", "many", ConnectionPhase.IDLE), ("c", "many", ConnectionPhase.ANSWERED)
    )
    assert connections.admit("d", "one") == "b"


def test_n32_a_body_that_is_awaited_makes_room_where_none_is_idle() -> None:
    connections = full(
        ("a", "", ConnectionPhase.ANSWERED), ("b", "", ConnectionPhase.RECEIVING), ("c", "", ConnectionPhase.RECEIVING)
    )
    assert connections.admit("d", "") == "b"
    assert connections.admit("e", "") == "d", "it is idle"


def test_n32_where_all_are_being_answered_the_new_one_is_turned_away() -> None:
    connections = full(("a", "", ConnectionPhase.ANSWERED), ("b", "", ConnectionPhase.ANSWERED))
    with pytest.raises(TooManyConnections, match=r"all 2 connections .* gateway\.connections_max"):
        connections.admit("c", "")
    connections.leave("c")
    connections.leave("a")
    assert connections.admit("d", "") is None
    assert connections.refused == 1


@pytest.mark.parametrize("seed", range(20))
def test_n32_whatever_comes_there_are_never_more_than_may_be(seed: int) -> None:
    chance, limit = random.Random(seed), 5
    connections, living = Connections[int](limit), dict[int, ConnectionPhase]()
    for number in range(2000):
        match chance.choice(["open", "turn", "leave"]):
            case "open":
                try:
                    victim = connections.admit(number, chance.choice("ab"))
                except TooManyConnections:
                    assert set(living.values()) == {ConnectionPhase.ANSWERED}
                    continue
                assert (victim is None) == (len(living) < limit)
                if victim is not None:
                    assert living.pop(victim) is not ConnectionPhase.ANSWERED
                living[number] = ConnectionPhase.IDLE
            case "turn" if living:
                one = chance.choice([*living])
                living[one] = chance.choice([*ConnectionPhase])
                connections.turn(one, living[one])
            case _ if living:
                gone = chance.choice([*living])
                del living[gone]
                connections.leave(gone)
                connections.leave(gone)
        assert len(connections) == len(living) <= limit


def test_n32_connections_get_half_of_the_files_at_most() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert connections_allowed(1_000_000_000) == max(LEAST_CONNECTIONS, soft // 2)
    assert connections_allowed(3) == 3
