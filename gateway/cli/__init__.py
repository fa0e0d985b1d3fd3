"""The commands of `ostler`, one module each, with `SUMMARY` and `run(argv) -> int`.

May import every floor of the gateway; no other floor imports it.

Rules of this package: the module's name is the command's name, so a new file adds a command. A module is imported only
when its command runs or when help is requested: the imports of one command never slow down another.
"""
