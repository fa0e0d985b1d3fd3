"""What a cold start costs with the pool and without: the reserve starts its own process for the next session, and must
not take the machine from the first.

With the agents that take a process for each session, where that is a whole second start, and with gemini. "Eager" is
the pool with the reserve started at once, as it was before it made way. How each is served is in
`bench/_pool/each_cold.py`.
"""

from bench._pool.alone import home_of, played
from bench._pool.ground import GEMINI
from bench.measure import Report
from tools.agents.pins import PINS

AGENTS = {"hermes-acp", GEMINI}


def run(quick: bool) -> Report:
    """The figures of this file."""
    wanted = {GEMINI} if quick else AGENTS
    homes = {pin.provider: home_of(pin) for pin in PINS if pin.provider in wanted}
    installs = {name: str(home) for name, home in homes.items() if home is not None}
    report = played("bench._pool.each_cold", {"installs": installs, "quick": quick})
    report.notes += [f"{name} could not be installed and is not measured" for name in homes if name not in installs]
    return report
