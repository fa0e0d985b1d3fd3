"""What an agent hears that asks "may I?": the operator's word for a key, a model or the house, and the session's own.

Rules:
- The narrower of what is said for the key and for the model holds; where neither says anything, the house's word does.
- A session may narrow that and never widen it: whoever may only ask cannot help themselves to an `allow`.
- A question that nobody can answer, because the face has no way to, is a no.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from types import MappingProxyType

from ostler.pool.keys import TransportKey

NAME = "permissions"
"""Of a session's own word in its metadata."""


class Rule(StrEnum):
    """From the narrowest to the widest."""

    DENY = "deny"
    ASK = "ask"
    ALLOW = "allow"


WIDTH = {rule: width for width, rule in enumerate(Rule)}


def narrowest(*rules: Rule | None) -> Rule | None:
    """The one that lets the least happen; None where nobody said anything."""
    said = [rule for rule in rules if rule is not None]
    return min(said, key=WIDTH.__getitem__, default=None)


@dataclass(frozen=True, slots=True)
class Permits:
    """The words of the house."""

    house: Rule = Rule.DENY
    models: Mapping[str, Rule] = field(default_factory=lambda: MappingProxyType({}))
    """By `provider/model`; patterns."""
    deadline: float = 300.0
    """Seconds that a person has to answer; silence is a no."""

    def rule(self, key: TransportKey, own: Rule | None = None) -> Rule:
        """What holds for this model and whoever has `own` for their key."""
        return narrowest(own, *self._of_model(f"{key.provider}/{key.model}")) or self.house

    def _of_model(self, model: str) -> Iterable[Rule]:
        return (rule for pattern, rule in self.models.items() if fnmatchcase(model, pattern))
