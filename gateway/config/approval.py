"""Which agents run in ask mode, what they may do, and which are refused because no permission level can be enforced on
them.

Rules:
- Every agent that has an ask mode runs in it, at every level. The gateway's answers implement the level, so a key or a
  session can narrow it on the same process.
- `providers.<name>.approval` overrides that. For an agent that then acts without asking, only `auto` can be enforced.
- An agent for which no level below `auto` was measured is limited to `auto`, unless its operator states that it asks
  (`approval = "ask"`).
- A default model whose agent cannot be held to its level stops the start: every request would be refused.
"""

from collections.abc import Mapping
from dataclasses import replace

from ostler.gateway.config.errors import ConfigError
from ostler.gateway.config.processes import sections_by_name
from ostler.gateway.config.settings import Settings
from ostler.gateway.model.model_names import Models
from ostler.gateway.model.permits import PermissionRule, PermissionRules, not_kept, rule_of
from ostler.pool.keys import TransportKey
from ostler.pool.launch.configuration import PoolSettings
from ostler.pool.provider import Approval, Provider


def made_to_ask(
    wanted: PoolSettings, settings: Settings, models: Models, providers: Mapping[str, Provider]
) -> PoolSettings:
    """Return the pool's settings with every agent in ask mode that has one and whose operator did not choose
    otherwise."""
    said = said_by_operator(settings, models)
    can_ask = {
        name: replace(each, approval=Approval.ASK)
        for name, each in wanted.providers.items()
        if name not in said and Approval.ASK in providers[name].approvals
    }
    return replace(wanted, providers={**wanted.providers, **can_ask})


def said_by_operator(settings: Settings, models: Models) -> frozenset[str]:
    """Return the providers whose `approval` the operator set."""
    sections = sections_by_name(settings, models)
    return frozenset(name for name, section in sections.items() if section.approval is not None)


def permits_of(
    settings: Settings, models: Models, wanted: PoolSettings, providers: Mapping[str, Provider]
) -> PermissionRules:
    """Return the permission rules in force. `pool.model_permissions` may name a provider by its name or by an alias."""
    rules: dict[str, PermissionRule] = {}
    for pattern, word in settings.pool.model_permissions.items():
        called, slash, model = models.aliases.get(pattern, pattern).partition("/")
        rules[f"{models.providers.get(called, called)}{slash}{model}"] = PermissionRule(word)
    said = said_by_operator(settings, models)
    can_ask = frozenset(
        name
        for name, each in wanted.providers.items()
        if each.approval is not Approval.AUTO and (name in said or PermissionRule.DENY in providers[name].levels)
    )
    return PermissionRules(
        PermissionRule(settings.pool.permissions), rules, settings.pool.permission_deadline, can_ask=can_ask
    )


def check_levels(settings: Settings, models: Models, permits: PermissionRules) -> None:
    """Raise `ConfigError` if no key may use the default model at its permission level."""
    found = models.resolve(models.default)
    if found is None or any(rule_of(key.permissions) is PermissionRule.AUTO for key in settings.auth.keys):
        return
    key = TransportKey(*found, "/")
    rule = permits.rule(key)
    if not permits.kept(key, rule):
        raise ConfigError("gateway.default_model", not_kept(key.provider, rule))


def notes(settings: Settings, models: Models, permits: PermissionRules) -> list[str]:
    """Return what an operator should know about the levels in force, one line per fact."""
    said = {"permissions": permits.default.value, **{name: rule.value for name, rule in permits.models.items()}}
    lines = [", ".join(f"{name}: {word}" for name, word in said.items()) + f" ({MEANINGS[permits.default]})"]
    keys = [key.permissions for key in settings.auth.keys]
    if "allow" in (settings.pool.permissions, *settings.pool.model_permissions.values(), *keys):
        lines.append('"allow" is an old name of a permission level: write "auto"')
    anywhere = {name: TransportKey(name, "*", "/") for name in sorted(set(models.providers.values()))}
    refused = [name for name, key in anywhere.items() if not permits.kept(key, permits.rule(key))]
    if refused:
        lines.append(f"refused, because they cannot be held to it: {', '.join(refused)} (see pool.model_permissions)")
    return lines


MEANINGS = {
    PermissionRule.DENY: "what needs permission is refused",
    PermissionRule.ASK: "a person is asked before agents act",
    PermissionRule.WORKSPACE: "agents edit files in their directory; for more a person is asked, or the answer is no",
    PermissionRule.AUTO: "agents do everything unasked",
}
