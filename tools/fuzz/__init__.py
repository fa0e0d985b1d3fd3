"""A deterministic mutation fuzzer: the same seed and the same count walk the same frames, on any machine."""
