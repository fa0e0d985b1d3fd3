"""Bytes to messages and back: lines, JSON, a JSON-RPC peer, backlogs, redaction.

Rules: a leaf. It imports nothing of ours, reads no clock, starts no task, and does no I/O outside of `pipes` and
`descriptors`. Every other room may import it.
"""
