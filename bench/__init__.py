"""Every claimed number, runnable."""
