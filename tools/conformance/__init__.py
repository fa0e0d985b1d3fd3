"""The official MCP conformance scenarios, against our HTTP channel."""
