"""What a session's tools cost by each channel: the time until they are attached, and memory per session.

The demo agent always, and of the pinned ones of `make agents`, as in `agents_first`, those that take tools over HTTP; a
quick run takes those that the project cannot do without. The memory is that of the agent's whole process tree, so a
relay counts where it runs. What the gateway itself holds for a session is not in it. How each is measured is in
`bench/_pool/each_channel.py`.
"""

from bench._pool.alone import played_by_each
from bench.measure import Report


def run(quick: bool) -> Report:
    """The figures of this file."""
    return played_by_each("bench._pool.each_channel", quick=quick)
