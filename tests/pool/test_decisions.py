"""What the pool remembers of answered claims is bounded in both directions."""

from ostler.pool.why import GRANTED, ClaimDecision, RecentClaims


def test_the_newest_come_first_and_the_oldest_go() -> None:
    kept = RecentClaims(per_key=3)
    for at in range(5):
        kept.record("k", ClaimDecision(float(at), GRANTED))
    assert [one.at for one in kept.of("k")] == [4.0, 3.0, 2.0]
    assert kept.of("other") == ()


def test_keys_are_bounded_and_the_quietest_goes_first() -> None:
    kept = RecentClaims(keys=2)
    for key in ("a", "b", "a", "c"):
        kept.record(key, ClaimDecision(0.0, GRANTED))
    assert [len(kept.of(key)) for key in ("a", "b", "c")] == [2, 0, 1]


def test_a_wait_is_the_sum_of_its_parts() -> None:
    assert ClaimDecision(0.0, GRANTED, queue=1.0, spawn=2.0, session_new=4.0).waited == 7.0
