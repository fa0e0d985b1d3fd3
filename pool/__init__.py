"""The pool: one warm agent process, many sessions. May import wire and metrics, never bridge or gateway."""
