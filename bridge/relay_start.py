"""Start the relay: `python -I -S -E <this file> relay`. The word `relay` is what `ps` shows; nothing else reads it.

Apart from it because an interpreter compiles the file it is told to run anew at each start, and keeps what it made of
those that this one imports, where it may write or an installer did. It leaves without tidying the interpreter up, for
nothing is held back that could be lost: both together are 2 of 7.5 ms of each start.
"""

import posix
import sys

if __name__ == "__main__":
    sys.path.append(__file__.rpartition("/")[0])
    try:
        # By name: what type checkers know as `ostler.bridge.relay` comes without its rooms here.
        __import__("relay").main()
    except KeyboardInterrupt:
        # Agents also end us by SIGINT; a traceback would be the only thing we ever wrote to stderr.
        posix._exit(0)
    posix._exit(0)
