"""Channels to a binding besides the unix socket, one module each.

Rules: may import the modules at the top of `bridge`, `ostler.wire` and `ostler.metrics`, never `bridge.server`
(import-linter). Every channel ends in the same `Binding`: it adds a way to a session's tools, never a permission.
"""
