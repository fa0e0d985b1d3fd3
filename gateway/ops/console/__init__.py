"""What operators see and do: the pool's state, its verbs, the admin socket, and the browser pages."""
