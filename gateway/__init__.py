"""The gateway: sessions, turns, HTTP, commands. The only composition root."""
