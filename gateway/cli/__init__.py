"""The commands of `ostler`, one module each: `SUMMARY`, and `run(argv) -> int`.

Rules of this package: the module's name is the command's name, adding a file adds a command. A module is
imported only when its command runs or when help is asked for, so what one command needs never slows another
down.
"""
