"""What agents may do: the operator's level for a key, a model or the house, and the session's own.

Rules:
- The narrower of what is said for the key and for the model holds; where neither says anything, the house's word does.
- A session may narrow that and never widen it: whoever may only ask cannot help themselves to an `allow`.
- A call of the client's own function needs no permission: it is the client that executes it, or does not.
- A question that nobody can answer, because the face has no way to, is a no.
- At `workspace` an edit inside the session's directory and a call of the gateway's own tools need nobody. Beyond that a
  person is asked on chat faces; an API client hears no, and says `ask` where it can answer.
- A level that an agent cannot be held to is refused for it, not served as if (`kept`).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType

from ostler.pool.events import PermissionAsked
from ostler.pool.keys import TransportKey
from ostler.pool.provider import Level

NAME = "permissions"
"""Of a session's own word in its metadata."""


Rule = Level
WIDTH = {rule: width for width, rule in enumerate(Rule)}


def rule_of(word: object) -> Rule | None:
    """The level of this name; None where there is none."""
    try:
        return Rule(word) if isinstance(word, str) else None
    except ValueError:
        return None


def narrowest(*rules: Rule | None) -> Rule | None:
    """The one that lets the least happen; None where nobody said anything."""
    said = [rule for rule in rules if rule is not None]
    return min(said, key=WIDTH.__getitem__, default=None)


def not_kept(provider: str, rule: Rule) -> str:
    """Why an agent is refused at a level, and what an operator can do."""
    return (
        f"agents of {provider} cannot be held to the permission level {rule.value!r}: they act without asking, or it "
        f'is not known that they ask; to let them do everything set model_permissions = {{"{provider}/*" = "auto"}} in '
        f'[pool], or, for an agent that does ask, providers.{provider}.approval = "ask"'
    )


@dataclass(frozen=True, slots=True)
class Permits:
    """The words of the house."""

    house: Rule = Rule.DENY
    models: Mapping[str, Rule] = field(default_factory=lambda: MappingProxyType({}))
    """By `provider/model`; patterns."""
    deadline: float = 300.0
    """Seconds that a person has to answer; silence is a no."""
    asking: frozenset[str] | None = None
    """The providers whose agents can be held to every level; None: all of them."""

    def rule(self, key: TransportKey, own: Rule | None = None) -> Rule:
        """What holds for this model and whoever has `own` for their key."""
        return narrowest(own, *self._of_model(f"{key.provider}/{key.model}")) or self.house

    def kept(self, key: TransportKey, rule: Rule) -> bool:
        """Whether agents of this provider can be held to the rule: one that never asks does as it likes."""
        return self.asking is None or rule is Rule.AUTO or key.provider in self.asking

    def _of_model(self, model: str) -> Iterable[Rule]:
        return (rule for pattern, rule in self.models.items() if fnmatchcase(model, pattern))


def kind_of(asked: PermissionAsked) -> str:
    """What a yes for the whole session is about: all edits, all commands, or this one tool."""
    kind = asked.tool_call.get("kind")
    return kind if isinstance(kind, str) and kind not in ("", "other") else f"other: {asked.title}"


def of_function(asked: PermissionAsked, functions: Collection[str], server: str) -> bool:
    """Whether the question is for a call of one of these functions, which the server of that name offers.

    Only what an agent cannot be talked into writing counts: a structured field, or a title that is nothing but the name
    in an agent's own spelling. Anything a model could have put into a title (a command line, a comment) is no match.
    """
    call = asked.tool_call
    meta = call.get("_meta")
    if isinstance(meta, dict) and meta.get("codex_approval_kind") == "mcp_tool_call":
        return call.get("serverName") == server and meta.get("tool_name") in functions
    spelled = {form for name in functions for form in (f"{name} ({server} MCP Server)", f"mcp__{server}__{name}")}
    return call.get("kind") == "other" and asked.title in spelled
