"""Bytes to messages and back. A leaf: imports nothing of ours, reads no clock, and does no I/O outside of `pipes`."""
