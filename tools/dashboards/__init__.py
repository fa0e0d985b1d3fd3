"""The Grafana dashboards, as code. `python -m tools.dashboards` writes `metrics/dashboards/*.json` anew."""
