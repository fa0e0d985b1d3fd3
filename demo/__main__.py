"""Start the demo agent: `python -I -S -E <this file> agent demo [flags]`.

The words `agent demo` are what `ps` shows; nothing else reads them.
"""

import os
import sys
from types import ModuleType

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def open_rooms() -> None:
    """Make `ostler.demo` and `ostler.wire` importable without running the `__init__` of their parent packages: without
    site-packages the import path does not contain them.
    """
    for name in ("ostler", "ostler.wire"):
        room = ModuleType(name)
        room.__path__ = [os.path.join(ROOT, *name.split(".")[1:])]
        sys.modules[name] = room


def main() -> int:
    """Run the agent on this process's stdin and stdout."""
    if __package__ in (None, ""):
        # Running a file puts its folder on the path: its module names must not shadow any others.
        sys.path[:] = [entry for entry in sys.path if entry != os.path.dirname(os.path.abspath(__file__))]
        open_rooms()
    from ostler.demo.process import run  # noqa: PLC0415 - importable only after open_rooms

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
