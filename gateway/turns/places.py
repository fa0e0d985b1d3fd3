"""Which model, directory and permission level a request gets, or the error that it gets instead.

Rule: a key with limited models or roots learns nothing about models and directories outside them.
"""

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


def directory_check_below(roots: Sequence[str], default_cwd: Path) -> Callable[[str], str]:
    """Return how a directory is checked: it must lie below the roots, except the default directory."""
    default = str(default_cwd)
    return lambda cwd: canonical_cwd(cwd, () if cwd == default else roots)


@dataclass(frozen=True, slots=True)
class Places:
    """The models and directories of this gateway."""

    models: Models
    default_cwd: Path
    directories: Directories
    permits: PermissionRules = field(default_factory=PermissionRules)

    async def key(self, model: str, cwd: str | None, caller: Caller) -> TransportKey:
        """Return the key of the process that is to answer. Raises `ApiError` if this caller may not use it."""
        found = self.models.resolve(model)
        if not caller.may_use(model) and (found is None or not caller.may_use("/".join(found))):
            # Same answer for a model that does not exist: a limited key learns nothing of what others may use.
            raise ApiError(403, f"this key may not use model {model[:200]!r}", param="model", code="model_not_allowed")
        if found is None:
            text = f"unknown model {model[:200]!r}; there is: {self.models.offered(to_all=not caller.models)}"
            raise ApiError(404, text, param="model", code="model_not_found")
        return TransportKey(*found, await self.directory(cwd, caller))

    def rule(self, key: TransportKey, caller: Caller, requested: str | None, kept: str | None) -> PermissionRule:
        """Return the level for the agent's permission requests. `requested` is the request's own level, `kept` that of
        its session. Raises `ApiError` if it is wider than allowed, or the agent cannot be held to the level."""
        given = self.permits.rule(key, caller.rule)
        if requested is not None:
            self._check_requested(given, requested)
        rule = narrowest(given, rule_of(requested or kept)) or given
        if not self.permits.kept(key, rule):
            raise ApiError(403, not_kept(key.provider, rule), param="model", code="permissions_not_kept")
        return rule

    def _check_requested(self, given: PermissionRule, requested: str) -> None:
        wished = rule_of(requested)
        if wished is None:
            raise bad(f"metadata.permissions must be one of {', '.join(WIDTH)}", f"metadata.{PERMISSIONS}")
        if WIDTH[wished] > WIDTH[given]:
            text = f"permissions for this key and model are {given.value!r}; a session may narrow that, not widen it"
            raise ApiError(403, text, param=f"metadata.{PERMISSIONS}", code="permissions_not_allowed")

    async def directory(self, cwd: str | None, caller: Caller) -> str:
        """Return the canonical path of a directory this caller may use. Raises `ApiError`."""
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
    """Whether the unusable path lies outside the caller's roots, so that the caller must not learn why it is
    unusable."""
    return Path(cwd).is_absolute() and not caller.may_enter(error.place or os.path.normpath(cwd))


def not_allowed(cwd: str) -> ApiError:
    """Return the error for a directory outside the roots of a key."""
    return ApiError(403, f"this key may not work in {cwd[:200]!r}", param="metadata.cwd", code="cwd_not_allowed")
