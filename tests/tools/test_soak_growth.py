"""Growth is found where there is some, and only there."""

from tools.soak.growth import beyond, is_flat, percentile, settled, slope, windows


def test_a_slope_is_told_per_hour() -> None:
    assert round(slope([(second, 50 + second / 3600) for second in range(0, 1800, 2)]), 6) == 1.0
    assert slope([(second, 50.0) for second in range(100)]) == 0.0
    assert slope([(1.0, 2.0)]) == 0.0


def test_what_passes_through_is_no_growth_and_what_stays_is() -> None:
    saw = [(float(second), 50.0 + second % 10) for second in range(1000)]
    assert slope(settled(saw, 10)) == 0.0
    leak = [(at, value + at / 360) for at, value in saw]
    assert round(slope(settled(leak, 10))) == 10


def test_windows_are_equal_stretches_of_time() -> None:
    assert windows([(0.0, 1.0), (1.0, 2.0), (9.0, 3.0), (10.0, 4.0)], 2) == [[1.0, 2.0], [3.0, 4.0]]
    assert windows([], 2) == []


def test_a_rising_percentile_is_not_flat() -> None:
    assert percentile([float(value) for value in range(100)], 0.99) == 99.0
    assert beyond([float(value) for value in range(100)], 0.9) == 94.5
    assert beyond([], 0.9) == 0.0
    assert is_flat([1.0, 1.2, 0.9, 1.1], 1.5)
    assert not is_flat([1.0, 1.0, 3.0, 3.0], 1.5)
    assert is_flat([1.8, 1.8, 2.4, 5.2, 1.9, 1.4], 2.0)
    assert not is_flat([0.7, 1.4, 1.9, 2.2, 2.5, 3.2], 2.0), "a rise that halves would let pass"
