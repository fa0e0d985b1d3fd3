"""The dependencies that all chat surfaces share."""

from dataclasses import dataclass

from ostler.gateway.chat.resets.policies import Policies
from ostler.gateway.turns.places import Places
from ostler.gateway.turns.sessions import Sessions


@dataclass(frozen=True, slots=True)
class ChatDeps:
    """Sessions, places and reset policies. Created once, by `app.py`."""

    sessions: Sessions
    places: Places
    policies: Policies
