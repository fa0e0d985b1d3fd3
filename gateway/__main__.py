"""The `ostler` command. Imports a command's code only when that command runs: start-up time is a feature."""

import sys


def main() -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 called wrongly."""
    print("usage: ostler <command>", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
