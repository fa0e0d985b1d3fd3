"""The demo agent as `OSTLER_DEMO_...` cannot make it: other flags in each directory, and a switch that ends every new
start. Run as `python varied_agent.py AGENT... -- FLAGS`: `flags` in the working directory holds more flags, one a line;
while `broken` exists beside this process's directory's parent, a start fails.
"""

import os
import sys
from pathlib import Path


def main() -> None:
    here = Path.cwd()
    if (here.parent / "broken").exists():
        sys.exit("the varied agent is told not to start")
    more = here / "flags"
    flags = more.read_text().split() if more.exists() else []
    argv = [*sys.argv[1:], *flags]
    os.execv(argv[0], argv)


if __name__ == "__main__":
    main()
