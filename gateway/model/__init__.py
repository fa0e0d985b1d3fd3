"""Values and ports that all floors of the gateway share: records, ids, errors, the store protocol, requests, outcomes.

Rules:
- This is the lowest floor: it imports no other floor of the gateway, only the rooms below (`pool`, `bridge`, `wire`).
- It holds values, protocols and pure decisions. It opens no connection, reads no clock and starts no
  task; only `release.py` reads files (the metadata of installed packages).
- Sources of randomness are passed in by the composition root.
"""
