"""Which clients, at which version. Installed into the same cache as the agents, by the same rules.

Rules: 33 MB and two seconds, so the test that needs an install makes it; a machine without node, npm or a registry
skips that test and says so. The newest major that runs on node 20; the next one wants node 22.
"""

from pathlib import Path

from tests.agents.pins import NpmPin

AI_SDK = NpmPin("ai-sdk", shelf=Path(__file__).parent, retries=1)
CLIENTS: tuple[NpmPin, ...] = (AI_SDK,)
