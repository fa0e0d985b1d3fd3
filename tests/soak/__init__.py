"""Minutes of random life: `make soak`, or `python -m tests.soak --seconds 30`."""
