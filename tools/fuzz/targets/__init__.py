"""One module per target; each defines `TARGET`. A new target (a bridge, a config reader) is one new file."""
