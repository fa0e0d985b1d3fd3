"""Metrics: implementations of the observer ports that the pool, the store, memory and the turns declare.

Imports those packages and `metrics`; none of them imports this one.
"""
