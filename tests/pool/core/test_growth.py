"""What a process weighed with how many sessions, and whether it has outgrown itself."""

from hypothesis import given
from hypothesis import strategies as st

from ostler.pool.core.growth import LOOKS, Weights

LOOKED = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 50)), max_size=40)


@given(LOOKED)
def test_growth_is_what_exceeds_the_least_weight_with_as_many_sessions_or_more(looked: list[tuple[int, int]]) -> None:
    weights = Weights()
    for place, (sessions, size) in enumerate(looked):
        least = min((weight for count, weight in looked[:place] if count >= sessions), default=size)
        assert weights.grown(sessions, size) == max(0, size - least)


@given(LOOKED)
def test_no_more_is_remembered_than_there_are_counts_of_sessions(looked: list[tuple[int, int]]) -> None:
    weights = Weights()
    for sessions, size in looked:
        weights.grown(sessions, size)
    counts, sizes = [count for count, _ in weights.least], [size for _, size in weights.least]
    assert counts == sorted(set(counts))
    assert sizes == sorted(set(sizes))


def test_a_leak_is_seen_through_an_evening_and_a_night() -> None:
    weights = Weights()
    looks = [(day, sessions) for day in range(6) for sessions in (2, 10, 40, 40, 10, 2)]
    found = [weights.outgrown(sessions, 100 + 4 * sessions + 50 * day, 120) for day, sessions in looks]
    assert found.index(True) == 3 * 6 + LOOKS - 1
