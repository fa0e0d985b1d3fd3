"""Minutes of random life on one pool: `make churn`, or `python -m tools.churn --seconds 30`."""
