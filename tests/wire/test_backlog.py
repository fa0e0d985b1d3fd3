"""What waits for a slow consumer is bounded, and nothing that was taken in is lost."""

from collections import deque
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.wire.backlog import ENTRY_COST, Backlog

Item = tuple[str, str]  # (stream, text): texts of one stream join, "" never joins


def gather(items: Sequence[Item]) -> Item:
    return items[0][0], "".join(text for _, text in items)


def backlog(*, soft: int = 4, budget: int = 10_000) -> Backlog[Item]:
    return Backlog(
        soft=soft,
        budget=budget,
        weigh=lambda item: len(item[1]),
        joins=lambda last, item: last[0] == item[0] != "",
        gather=gather,
    )


PUTS = st.lists(st.tuples(st.sampled_from(["a", "b", ""]), st.text(min_size=1, max_size=30)) | st.none(), max_size=200)


@given(PUTS, st.integers(1, 6), st.integers(1, 4000))
def test_what_is_taken_is_what_was_put_joined_and_never_reordered(
    puts: list[Item | None], soft: int, budget: int
) -> None:
    queue = backlog(soft=soft, budget=budget)
    held: deque[Item] = deque()  # the model: what is inside, unjoined

    def take() -> None:
        if not held:
            with pytest.raises(IndexError):
                queue.take()
            return
        stream, text = queue.take()
        gathered, parts = "", 0
        while len(gathered) < len(text):
            its_stream, its_text = held.popleft()
            assert its_stream == stream
            gathered += its_text
            parts += 1
        assert gathered == text
        assert parts == 1 or stream

    for item in puts:
        if item is None:
            take()
            continue
        cost = len(item[1]) + ENTRY_COST
        fits = not held or queue.cost + cost <= budget
        assert queue.put(item) == fits
        if fits:
            held.append(item)
        assert queue.cost == sum(len(text) + ENTRY_COST for _, text in held)
        assert len(queue) <= len(held)
    while len(queue):
        take()
    assert not held
    assert queue.cost == 0


@given(st.lists(st.text(min_size=1, max_size=5), max_size=300), st.integers(1, 8))
def test_streaming_text_never_grows_the_queue_and_loses_nothing(texts: list[str], soft: int) -> None:
    queue = backlog(soft=soft, budget=1_000_000)
    for text in texts:
        assert queue.put(("a", text))
    assert len(queue) == min(soft, len(texts))
    taken = [queue.take()[1] for _ in range(len(queue))]
    assert taken[: soft - 1] == texts[: soft - 1]
    assert "".join(taken) == "".join(texts)
    assert queue.cost == 0


def test_what_cannot_join_waits_as_its_own_entry_until_the_budget_ends() -> None:
    queue = backlog(soft=1, budget=10 * ENTRY_COST)
    assert [queue.put(("", "")) for _ in range(11)] == [True] * 10 + [False]
    assert len(queue) == 10


def test_a_refused_item_changes_nothing() -> None:
    queue = backlog(budget=3 * ENTRY_COST)
    assert queue.put(("a", "x" * ENTRY_COST))
    assert not queue.put(("a", "y" * (ENTRY_COST + 1)))
    assert (len(queue), queue.cost) == (1, 2 * ENTRY_COST)
    assert queue.put(("a", ""))
    assert queue.take() == ("a", "x" * ENTRY_COST)


def test_an_empty_backlog_takes_any_one_item() -> None:
    """A consumer with nothing to catch up is not slow, however large the next item is."""
    queue = backlog(budget=100)
    assert queue.put(("a", "x" * 1000))
    assert not queue.put(("a", "y"))
    assert queue.take() == ("a", "x" * 1000)
    assert queue.cost == 0
    assert queue.put(("a", "y" * 1000))


def test_a_different_stream_breaks_the_run() -> None:
    queue = backlog(soft=1)
    for item in (("a", "1"), ("a", "2"), ("b", "3"), ("a", "4")):
        queue.put(item)
    assert [queue.take() for _ in range(len(queue))] == [("a", "12"), ("b", "3"), ("a", "4")]


def test_clear_gives_everything_back() -> None:
    queue = backlog()
    queue.put(("a", "heavier than what comes later"))
    queue.put(("", "2"))
    queue.clear()
    assert (len(queue), queue.cost) == (0, 0)
    assert queue.put(("a", "3"))
    assert queue.take() == ("a", "3")
    assert queue.cost == 0


def test_an_item_whose_weight_changes_while_it_waits_does_not_bend_the_books() -> None:
    queue: Backlog[list[int]] = Backlog(
        soft=1, budget=10_000, weigh=len, joins=lambda last, item: False, gather=lambda items: items[0]
    )
    item = [1]
    queue.put(item)
    item.extend(range(100))
    assert queue.take() is item
    assert queue.cost == 0


def test_a_backlog_that_may_hold_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 entry"):
        backlog(soft=0)
