"""Until a new session says its first word, with every agent that can be installed here: parked, warm, cold, and what a
user would do instead.

The agents are the pinned ones of `make agents`, behind a fake model that answers at once, without a network: a model's
own time is not in it. How each is served is in `bench/_pool/each_agent.py`. An agent that cannot be installed is left
out and named; a quick run asks only those that the project cannot do without.
"""

from bench._pool.alone import played_by_each
from bench.measure import Report


def run(quick: bool) -> Report:
    """The figures of every agent."""
    return played_by_each("bench._pool.each_agent", quick=quick)
