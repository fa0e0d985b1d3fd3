"""External tool servers (`[tools.mcp.<name>]`), started once and shared by all sessions that may see them.

Rules: may import the modules at the top of `bridge`, `ostler.wire` and `ostler.metrics`. Only `client.py` imports the
MCP library, and only `process.py` and `leash.py` start processes.
"""
