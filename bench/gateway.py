"""What a turn costs besides the agent: a whole gateway in a process of its own, the demo agent, durable storage."""
