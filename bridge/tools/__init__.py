"""Built-in tools, one module each with a `TOOL`."""
