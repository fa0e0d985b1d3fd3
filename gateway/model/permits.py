"""What agents may do: the operator's level for a key, a model or the whole gateway, and the session's own.

Rules:
- If the key and the model both have a level, the narrower one applies; if neither has one, the gateway's level applies.
- A session may narrow that level and never widen it: a client with the level `ask` cannot grant itself `auto`.
- A call of the client's own function needs no permission: the client executes it, or does not.
- A question on a surface that has no way to answer it is answered with no.
- At `workspace` an edit inside the session's directory and a call of the gateway's own tools need no permission. For
  anything else a person is asked on chat surfaces; an API client gets a no, and sets `ask` if it can answer.
- An agent that cannot be held to a level is refused at that level, instead of served as if it were (`kept`).
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType

from ostler.pool.events import PermissionAsked
from ostler.pool.keys import TransportKey
from ostler.pool.provider import Level
from ostler.wire.json import JsonObject

NAME = "permissions"
"""The key of a session's own level in its metadata."""


PermissionRule = Level
WIDTH = {rule: width for width, rule in enumerate(PermissionRule)}


def rule_of(word: object) -> PermissionRule | None:
    """Return the level of this name, or None for any other value."""
    try:
        return PermissionRule(word) if isinstance(word, str) else None
    except ValueError:
        return None


def narrowest(*rules: PermissionRule | None) -> PermissionRule | None:
    """Return the level that permits the least; None if none is set."""
    said = [rule for rule in rules if rule is not None]
    return min(said, key=WIDTH.__getitem__, default=None)


def not_kept(provider: str, rule: PermissionRule) -> str:
    """Return why an agent is refused at a level, and what an operator can do."""
    return (
        f"agents of {provider} cannot be held to the permission level {rule.value!r}: they act without asking, or it "
        f'is not known that they ask; to let them do everything set model_permissions = {{"{provider}/*" = "auto"}} in '
        f'[pool], or, for an agent that does ask, providers.{provider}.approval = "ask"'
    )


@dataclass(slots=True)
class PermissionRules:
    """The levels that the operator configured. One object for the whole gateway; a reload changes it in place."""

    default: PermissionRule = PermissionRule.DENY
    models: Mapping[str, PermissionRule] = field(default_factory=lambda: MappingProxyType({}))
    """Levels by `provider/model`, which may be patterns."""
    deadline: float = 300.0
    """Seconds that a person has to answer; no answer counts as no."""
    can_ask: frozenset[str] | None = None
    """The providers whose agents can be held to every level; None: all of them."""

    def follow(self, fresh: "PermissionRules") -> None:
        """Replace the levels by those of a fresh configuration, from the next turn on."""
        self.default, self.models, self.deadline, self.can_ask = (
            fresh.default,
            fresh.models,
            fresh.deadline,
            fresh.can_ask,
        )

    def rule(self, key: TransportKey, own: PermissionRule | None = None) -> PermissionRule:
        """Return the level for this model and a caller whose key has the level `own`."""
        return narrowest(own, *self._of_model(f"{key.provider}/{key.model}")) or self.default

    def kept(self, key: TransportKey, rule: PermissionRule) -> bool:
        """Whether agents of this provider can be held to the level: an agent that never asks cannot be limited."""
        return self.can_ask is None or rule is PermissionRule.AUTO or key.provider in self.can_ask

    def _of_model(self, model: str) -> Iterable[PermissionRule]:
        return (rule for pattern, rule in self.models.items() if fnmatchcase(model, pattern))


def kind_of(asked: PermissionAsked) -> str:
    """Return what a yes for the whole session covers: all edits, all commands, or this one tool."""
    kind = asked.tool_call.get("kind")
    return kind if isinstance(kind, str) and kind not in ("", "other") else f"other: {asked.title}"


def of_function(asked: PermissionAsked, functions: Collection[str], server: str) -> bool:
    """Whether the question is for a call of one of these functions, which the server of that name offers.

    Only evidence that a prompt cannot forge counts: a structured field, or a title that is nothing but the name in the
    agent's own spelling. Text that a model could have put into a title (a command line, a comment) is no match.
    """
    call, names = asked.tool_call, frozenset(functions)
    meta = call.get("_meta")
    if isinstance(meta, dict) and meta.get("codex_approval_kind") == "mcp_tool_call":
        return call.get("serverName") == server and meta.get("tool_name") in names
    if asked.title == CODEX_ACP and call.get("kind") is None:
        return named_by_codex_acp(call, server) in names
    if call.get("kind") != "other":
        return False
    if any(option.name in {QWEN + name for name in names} for option in asked.options):
        return True
    return asked.title in {form.format(server=server, name=name) for form in SPELLINGS for name in names}


SPELLINGS = ("{name} ({server} MCP Server)", "mcp__{server}__{name}", "{server}_{name}")
"""How gemini, claude and opencode call a function of a server, as a whole title."""
QWEN = "Always Allow in project: "
"""qwen states the function's name in its options only, and its server nowhere."""
CODEX_ACP = "Approve MCP tool call"


def named_by_codex_acp(call: JsonObject, server: str) -> str | None:
    """Return the function of this server that codex-acp asks about, read from its structured fields."""
    given = call.get("rawInput")
    asked = given.get("request") if isinstance(given, dict) and given.get("server_name") == server else None
    meta = asked.get("_meta") if isinstance(asked, dict) else None
    if not isinstance(asked, dict) or not isinstance(meta, dict) or meta.get("codex_approval_kind") != "mcp_tool_call":
        return None
    found = re.fullmatch(
        rf'Allow the {re.escape(server)} MCP server to run tool "([\w-]+)"\?', str(asked.get("message"))
    )
    return found and found[1]
