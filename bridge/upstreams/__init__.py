"""External tool servers (`[tools.mcp.<name>]`), started once and shared by all sessions that may see them.

Rules: may import the modules at the top of `bridge` and the rooms `wire` and `metrics`. Only `client.py` imports the
MCP library, and only `process.py` starts processes.
"""
