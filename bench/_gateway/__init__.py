"""What `bench/gateway.py` measures with: the gateway's process, its clients, its turns and its streams."""
