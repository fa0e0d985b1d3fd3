"""Tool servers of others (`[tools.mcp.<name>]`), started once and shared by all sessions that may see them."""
