"""What operators see and do: the pool's state, its verbs, the admin socket, the status page."""
