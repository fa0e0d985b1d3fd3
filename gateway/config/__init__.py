"""What an operator configures: `ostler.toml`, the key file and the environment, as typed values.

Rules:
- This floor imports `model`, and from the rooms below it only settings, keys and names. It knows no other floor.
- It reads everything once, at the start, except the key file, which SIGHUP reads again. Nothing else in the gateway
  reads settings from the environment or from a file.
- An unknown key stops the start, and the error names the nearest known key.
"""
