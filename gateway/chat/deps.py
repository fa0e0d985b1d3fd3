"""What all chat faces share: the sessions, the models and directories, and when a conversation begins anew."""

from dataclasses import dataclass

from ostler.gateway.chat.resets.policies import Policies
from ostler.gateway.turns.places import Places
from ostler.gateway.turns.sessions import Sessions


@dataclass(frozen=True, slots=True)
class ChatDeps:
    """Made once, by `app.py`."""

    sessions: Sessions
    places: Places
    policies: Policies
