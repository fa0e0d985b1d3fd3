"""Reports tasks that died."""

import logging

log = logging.getLogger(__name__)


def log_death(name: str, error: BaseException) -> None:
    """Log a task that died. It is a bug: it took one turn with it, and must be visible."""
    log.critical("%s died: %s", name, error, exc_info=error)
