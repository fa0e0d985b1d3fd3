"""The real agent CLIs: pinned installs, offline recipes, and the command that runs the contract suite against them."""
