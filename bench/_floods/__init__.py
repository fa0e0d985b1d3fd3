"""What `bench/floods.py` measures with: a hostile agent, hostile clients, and the watchers of everybody else."""
