"""Minutes of random life on one pool: `make churn`, or `python -m tests.churn --seconds 30`."""
