"""The Grafana dashboards, as code. `python -m tests.dashboards` writes `metrics/dashboards/*.json` anew."""
