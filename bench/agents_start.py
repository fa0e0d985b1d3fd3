"""Cold start of the real agents: as a person starts them, as we do, and with Node's compile cache; and for gemini,
eight sessions opened one after another against eight that are asked for at once.

The agents are the pinned ones of `make agents`, as in `agents_first`; how each is started is in
`bench/_pool/each_start.py`. Hermes is not among them: a command of its own is what its recipe is about.
"""

from bench._pool.alone import played_by_each
from bench.measure import Report


def run(quick: bool) -> Report:
    """The figures of this file."""
    return played_by_each("bench._pool.each_start", quick=quick, without={"hermes-acp"})
