"""Every instrument, declared once. A leaf: the registry is an argument, never a global.

`Shelf` keeps the families of one registry and writes them out piece by piece; `instruments` declares them, group by
group; `dashboards/*.json` and `alerts.yml` are what operators load.
"""
