"""API clients that are no Python packages: pinned installs, and the programs that use them as their users do."""
