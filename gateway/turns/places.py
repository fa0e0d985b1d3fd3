"""To be written."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ostler.gateway.config.keys import Caller
from ostler.gateway.model.api_error import ApiError, bad
from ostler.gateway.model.model_names import Models
from ostler.gateway.model.permits import NAME as PERMISSIONS
from ostler.gateway.model.permits import WIDTH, PermissionRule, PermissionRules, narrowest, not_kept, rule_of
from ostler.pool.errors import BadDirectory
from ostler.pool.keys import TransportKey, canonical_cwd
from ostler.pool.launch.directories import Directories


def look_below(roots: Sequence[str], default_cwd: Path) -> Callable[[str], str]:
    """How a directory is judged: below the roots, or the one that is meant where nobody names any."""
    default = str(default_cwd)
    return lambda cwd: canonical_cwd(cwd, () if cwd == default else roots)


@dataclass(frozen=True, slots=True)
class Places:
    """Models and directories of this gateway."""

    models: Models
    default_cwd: Path
    directories: Directories
    permits: PermissionRules = field(default_factory=PermissionRules)

    async def key(self, model: str, cwd: str | None, caller: Caller) -> TransportKey:
        """The process that shall answer; or the reason why this caller may not have it."""
        found = self.models.resolve(model)
        if not caller.may_use(model) and (found is None or not caller.may_use("/".join(found))):
            # The same for a model that there is not: a key learns nothing of what others may use.
            raise ApiError(403, f"this key may not use model {model[:200]!r}", param="model", code="model_not_allowed")
        if found is None:
            text = f"unknown model {model[:200]!r}; there is: {self.models.offered(to_all=not caller.models)}"
            raise ApiError(404, text, param="model", code="model_not_found")
        return TransportKey(*found, await self.directory(cwd, caller))

    def rule(self, key: TransportKey, caller: Caller, wish: str | None, kept: str | None) -> PermissionRule:
        """What the agent hears when it asks. `wish` is the request's own word, `kept` the one of its session."""
        given = self.permits.rule(key, caller.rule)
        if wish is not None:
            self._check_wish(given, wish)
        rule = narrowest(given, rule_of(wish or kept)) or given
        if not self.permits.kept(key, rule):
            raise ApiError(403, not_kept(key.provider, rule), param="model", code="permissions_not_kept")
        return rule

    def _check_wish(self, given: PermissionRule, wish: str) -> None:
        wished = rule_of(wish)
        if wished is None:
            raise bad(f"metadata.permissions must be one of {', '.join(WIDTH)}", f"metadata.{PERMISSIONS}")
        if WIDTH[wished] > WIDTH[given]:
            text = f"permissions for this key and model are {given.value!r}; a session may narrow that, not widen it"
            raise ApiError(403, text, param=f"metadata.{PERMISSIONS}", code="permissions_not_allowed")

    async def directory(self, cwd: str | None, caller: Caller) -> str:
        """Canonical and allowed."""
        if cwd is None and caller.roots:
            cwd = caller.roots[0]
        given = str(self.default_cwd) if cwd is None else cwd
        try:
            place = await self.directories.check(given)
        except BadDirectory as error:
            if is_outside(error, given, caller):
                raise not_allowed(given) from error
            raise bad(str(error), "metadata.cwd", "invalid_cwd") from error
        if not caller.may_enter(place):
            raise not_allowed(given)
        return place


def is_outside(error: BadDirectory, cwd: str, caller: Caller) -> bool:
    """Whether what cannot be used lies outside the caller's roots, so that they may not even know why."""
    return Path(cwd).is_absolute() and not caller.may_enter(error.place or os.path.normpath(cwd))


def not_allowed(cwd: str) -> ApiError:
    """A directory outside the roots of a key."""
    return ApiError(403, f"this key may not work in {cwd[:200]!r}", param="metadata.cwd", code="cwd_not_allowed")
