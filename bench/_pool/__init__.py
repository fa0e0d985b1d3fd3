"""The scenes of `bench/pool`: they run together in one process, in a network namespace that has loopback only."""
