"""Bytes to messages and back. A leaf: imports nothing of ours, does no I/O, reads no clock."""
