"""One module per agent CLI. Adding a provider is adding a file here with a `PROVIDER`."""
