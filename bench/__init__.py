"""Every claimed number, runnable: `python -m bench [--quick] [NAME ...]`."""
