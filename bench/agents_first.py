"""Until a new session says its first word, with every agent that can be installed here: parked, warm, cold, and what a
user would do instead.

The agents are the pinned ones of `make agents`, behind a fake model that answers at once, without a network: a model's
own time is not in it. How each is served is in `bench/_pool/each_agent.py`. An agent that cannot be installed is left
out and named; a quick run asks only those that the project cannot do without.
"""

from bench._pool.alone import home_of, played
from bench.measure import Report
from tests.agents.__main__ import REQUIRED
from tests.agents.pins import PINS


def run(quick: bool) -> Report:
    """The figures of every agent."""
    wanted = [pin for pin in sorted(PINS, key=lambda pin: pin.provider) if not quick or pin.provider in REQUIRED]
    homes = {pin.provider: home_of(pin) for pin in wanted}
    installs = {name: str(home) for name, home in homes.items() if home is not None}
    report = played("bench._pool.each_agent", {"installs": installs, "quick": quick})
    report.notes += [f"{name} could not be installed and is not measured" for name in homes if name not in installs]
    return report
