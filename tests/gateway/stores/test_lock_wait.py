"""One wait for a lock that stays, however many writes meet it. H03."""

import pytest

from ostler.gateway.stores.sqlite.lock_wait import SHARE, LockWait

WHOLE = 5.0
LAST = WHOLE / SHARE


def test_h03_the_first_transaction_may_wait_for_all_of_it() -> None:
    assert LockWait(WHOLE).left(100.0, 100.0) == WHOLE


def test_h03_what_opening_the_file_took_is_part_of_it() -> None:
    assert LockWait(WHOLE).left(100.0, 104.0) == 1.0


def test_h03_writes_behind_the_first_get_a_last_try_only() -> None:
    lock = LockWait(WHOLE)
    assert lock.refused(100.0, 105.0) == WHOLE
    now = 105.0
    for _ in range(20):
        left = lock.left(now, now)
        assert left == LAST
        now += left
        assert lock.refused(now - left, now) == pytest.approx(now - 100.0)


def test_h03_a_lock_that_came_makes_the_next_wait_whole_again() -> None:
    lock = LockWait(WHOLE)
    lock.refused(100.0, 105.0)
    lock.granted()
    assert lock.left(105.0, 105.0) == WHOLE


def test_h03_what_was_found_long_ago_is_forgotten() -> None:
    lock = LockWait(WHOLE)
    lock.refused(100.0, 105.0)
    assert lock.left(110.0, 110.0) == LAST
    assert lock.left(110.1, 110.1) == WHOLE
    assert lock.refused(110.1, 115.1) == WHOLE
