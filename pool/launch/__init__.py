"""From a provider and its settings to one launch: program, arguments, environment, logins, fingerprint.

Rules:
- May import `pool.providers`, the values of `pool.core`, the modules at the top of `pool`, `ostler.process` and
  `ostler.wire`. Never `pool.agent`, `pool.runner` (import-linter), `bridge` or `gateway`.
- Starts nothing: a `Launch` is a value, and `pool.agent` starts its process.
- The warm path and the claim path use the same builder (`builder.launch`).
"""
