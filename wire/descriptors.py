"""How many descriptors a process may open: for us as many as the kernel allows, for our children as many as before.

Rules:
- At 1,024, the usual soft limit, a thousand idle connections lock every other client out. The hard limit is what the
  operator grants, and every process may raise its soft limit up to it: `ostler serve` does.
- Children get the soft limit that we were started with. A program that uses `select` breaks on descriptors from 1,024
  on, and some programs close every number up to the limit when they start.
- The limit of a child is set right after its start, by its pid. `preexec_fn` would fork where vfork is used now;
  lowering our own limit during a start would make files fail that other threads open at that moment.
"""

import resource

STARTED_WITH = resource.getrlimit(resource.RLIMIT_NOFILE)
"""Read at import, before `raise_open_files`."""


def raise_open_files() -> int:
    """Raise the soft limit to the hard one; return the soft limit in force. If the kernel refuses, nothing changes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        return soft
    return hard


def restore_open_files(pid: int) -> None:
    """Give a child that was just started the limit that we were started with. Raises `OSError`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = STARTED_WITH[0]
    if soft != before and (hard == resource.RLIM_INFINITY or before <= hard):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (before, hard))
