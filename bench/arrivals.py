"""The arrival patterns of the reserve bench, generated once and committed: `python -m bench.arrivals` writes
them anew.

steady: a chat face with a constant audience · burst: a class of students after ten silent minutes, again and
again · day: twelve hours of an office, busy at ten and at three, on a compressed clock.
"""

import json
import math
import random
from pathlib import Path

HOME = Path(__file__).parent / "arrivals"


def _poisson(rng: random.Random, seconds: float, rate: float) -> list[float]:
    times, now = [], rng.expovariate(rate)
    while now < seconds:
        times.append(now)
        now += rng.expovariate(rate)
    return times


def steady(rng: random.Random) -> list[float]:
    return _poisson(rng, 3600.0, 0.2)


def burst(rng: random.Random) -> list[float]:
    times: list[float] = []
    for start in range(600, 7200, 660):
        times += [start + rng.random() * 12.0 for _ in range(rng.randint(15, 25))]
    return sorted(times)


def day(rng: random.Random) -> list[float]:
    """Two humps over four hours; a candidate is kept with the probability of its hour."""
    length, most = 4 * 3600.0, 0.4

    def load(now: float) -> float:
        hour = 8.0 + 12.0 * now / length
        return math.exp(-((hour - 10.0) ** 2) / 1.5) + math.exp(-((hour - 15.0) ** 2) / 2.0)

    return [now for now in _poisson(rng, length, most) if rng.random() < load(now)]


PATTERNS = {"steady": steady, "burst": burst, "day": day}


def read(name: str) -> list[float]:
    times: list[float] = json.loads((HOME / f"{name}.json").read_text())
    return times


def main() -> None:
    HOME.mkdir(exist_ok=True)
    for seed, (name, make) in enumerate(PATTERNS.items()):
        times = [round(now, 2) for now in make(random.Random(seed))]
        (HOME / f"{name}.json").write_text(json.dumps(times) + "\n")


if __name__ == "__main__":
    main()
