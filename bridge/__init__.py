"""The tool bridge: every tool call lands in its own session. Never imports pool or gateway."""
