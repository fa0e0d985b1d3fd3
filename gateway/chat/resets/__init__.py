"""Automatic resets: when a session ends by itself and a new one begins.

Imports `turns`, `config` and `model`. `policy.py` decides, `policies.py` reads the settings of each platform,
`expiry.py` ends sessions, `retention.py` deletes them.
"""
