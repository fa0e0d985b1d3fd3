"""What the world does to a gateway, at random moments and under load: `make faults`, or `python -m tools.faults`."""
