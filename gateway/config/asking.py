"""Which agents are made to ask before they act, and what they hear.

Rules:
- As soon as `pool.permissions` says what agents hear, every agent that can be made to ask is. Until then they act as
  they are used to, and a question that comes all the same is answered with no.
- `providers.<name>.approval` beats that. Of an agent that then acts without asking, no rule but `allow` can be kept:
  requests under another rule are refused, never served as if.
"""

from collections.abc import Mapping
from dataclasses import replace

from ostler.gateway.config.errors import ConfigError
from ostler.gateway.config.processes import sections_by_name
from ostler.gateway.config.settings import Settings
from ostler.gateway.models import Models
from ostler.gateway.sessions.permits import Permits, Rule
from ostler.pool.configuration import PoolSettings
from ostler.pool.provider import Approval, Provider


def made_to_ask(
    wanted: PoolSettings, settings: Settings, models: Models, providers: Mapping[str, Provider]
) -> PoolSettings:
    """The pool's settings with the agents' manners in them."""
    pool = settings.pool
    if pool.permissions is None:
        if pool.model_permissions or any(key.permissions for key in settings.auth.keys):
            text = "set it too: it is what agents hear where neither the key nor the model has a rule"
            raise ConfigError("pool.permissions", text)
        return wanted
    sections = sections_by_name(settings, models)
    said = {name for name, section in sections.items() if section.approval is not None}
    asking = {
        name: replace(each, approval=Approval.ASK)
        for name, each in wanted.providers.items()
        if name not in said and Approval.ASK in providers[name].approvals
    }
    return replace(wanted, providers={**wanted.providers, **asking})


def permits_of(settings: Settings, models: Models, wanted: PoolSettings) -> Permits:
    """What they hear. A provider may be called as people call it."""
    rules: dict[str, Rule] = {}
    for pattern, word in settings.pool.model_permissions.items():
        called, slash, model = models.aliases.get(pattern, pattern).partition("/")
        rules[f"{models.providers.get(called, called)}{slash}{model}"] = Rule(word)
    asking = frozenset(name for name, each in wanted.providers.items() if each.approval is not Approval.AUTO)
    house = settings.pool.permissions
    return Permits(
        Rule(house or Rule.DENY),
        rules,
        settings.pool.permission_deadline,
        asking=None if house is None else asking,
    )
