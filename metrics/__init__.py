"""Every instrument, declared once. A leaf: the registry is an argument, never a global.

May import nothing of ostler. `MetricRegistry` (`registry.py`) holds the instruments of one registry and writes them
out; `instruments` declares them by the component that counts; operators load `dashboards/*.json` and
`alerts.yml`.
"""
