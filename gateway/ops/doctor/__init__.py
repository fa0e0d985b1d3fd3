"""`ostler doctor`: checks that every agent is installed, has its credentials, starts quickly and is safe to share.

Imports `config`, the pool and the bridge; starts no gateway. Each finding that must be fixed says how.
"""
