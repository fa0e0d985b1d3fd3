"""What an operator decides: `ostler.toml` and the environment, as typed values.

Rules: everything here is read once, at the start, but for the key file, which SIGHUP reads again; nothing else in the
gateway looks at the environment or at a file of settings. An unknown key stops the start and names its nearest
neighbour.
"""
