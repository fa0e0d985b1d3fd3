"""The demo agent: a real ACP subprocess, no model, no network. A fresh install works with it."""
