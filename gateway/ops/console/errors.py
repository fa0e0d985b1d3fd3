"""The mistakes of an operator. Each message says what exists instead."""

from collections.abc import Sequence

from ostler.gateway.model.errors import GatewayError


class ConsoleError(GatewayError):
    """An order that cannot be carried out. Nothing was changed."""

    status = 400
    code = "invalid_order"


class UnknownPoolKey(ConsoleError):
    """The pool holds no key of this name."""

    status = 404
    code = "unknown_key"

    def __init__(self, key: str, known: Sequence[str]) -> None:
        listed = "; ".join(known) or "none; `ostler pool warm` makes one"
        super().__init__(f"the pool holds no key {key!r}; it holds: {listed}")
        self.key = key
        self.known = tuple(known)


class AmbiguousKey(ConsoleError):
    """The model has keys in several directories."""

    status = 409
    code = "ambiguous_key"

    def __init__(self, key: str, cwds: Sequence[str]) -> None:
        super().__init__(f"{key!r} is kept in several directories; name one of them as cwd: {', '.join(cwds)}")
        self.key = key
        self.cwds = tuple(cwds)


class UnknownModel(ConsoleError):
    """A name that resolves to no provider."""

    status = 404
    code = "unknown_model"

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"{name!r} is no model: use an alias or provider/model; providers: {', '.join(known)}")
        self.name = name
        self.known = tuple(known)


class UnknownProcess(ConsoleError):
    """No process has this number."""

    status = 404
    code = "unknown_process"

    def __init__(self, number: int, known: Sequence[int]) -> None:
        listed = ", ".join(map(str, known)) or "none"
        super().__init__(f"the pool has no process {number}; it has: {listed}")
        self.number = number
        self.known = tuple(known)


class WrongState(ConsoleError):
    """The process is in a state in which this order makes no sense."""

    status = 409
    code = "wrong_state"

    def __init__(self, number: int, verb: str, state: str) -> None:
        super().__init__(f"process {number} is {state}: it cannot be told to {verb}")
        self.number = number
        self.verb = verb
        self.state = state


class PoolOff(ConsoleError):
    """The pool is off, so there are no shared processes to keep warm, pause or drain."""

    status = 409
    code = "pool_off"

    def __init__(self, verb: str) -> None:
        super().__init__(
            f"the pool is off, each session has a process of its own, so there is nothing to {verb}; kill and recycle "
            "work on single processes"
        )
        self.verb = verb


class TooManyWatchers(ConsoleError):
    """Too many live views: each costs the event loop some time."""

    status = 429
    code = "too_many_watchers"

    def __init__(self, most: int) -> None:
        super().__init__(f"{most} live views are open already; close one")
        self.most = most
