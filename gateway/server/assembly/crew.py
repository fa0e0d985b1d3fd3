"""What becomes of a task that dies."""

import logging

log = logging.getLogger(__name__)


def log_death(name: str, error: BaseException) -> None:
    """A task that died is a bug of ours: it took one turn with it, and is seen."""
    log.critical("%s died: %s", name, error, exc_info=error)
