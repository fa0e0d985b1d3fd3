"""What an operator configures: `ostler.toml`, the key file and the environment, as typed values.

Rules:
- This package imports `gateway/model` and the settings types of the pool; it knows no other floor of the gateway.
- It reads everything once, at the start, except the key file, which SIGHUP reads again. Nothing else in the gateway
  reads the environment or a settings file.
- An unknown key stops the start, and the error names the nearest known key.
"""
