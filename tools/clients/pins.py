"""Which clients, at which version. Installed into the same cache as the agents, by the same rules.

Rules: a machine without node, npm or a registry does without them and says so. `ai-sdk` takes 33 MB and two seconds, so
the test that needs an install makes it; the newest major that runs on node 20, the next one wants node 22. `acpx` is
what a person would drive an agent with instead of a gateway: a bench measures it beside us. `pyright` reads the
programs of those who embed the pool, as their editor does.
"""

from pathlib import Path

from tools.agents.pins import NpmPin

SHELF = Path(__file__).parent
AI_SDK = NpmPin("ai-sdk", shelf=SHELF, retries=1)
ACPX = NpmPin("acpx", shelf=SHELF, retries=1)
PYRIGHT = NpmPin("pyright", shelf=SHELF, retries=1)
CLIENTS: tuple[NpmPin, ...] = (AI_SDK, ACPX, PYRIGHT)
