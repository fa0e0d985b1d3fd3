"""Every instrument, declared once. A leaf: the registry is an argument, never a global."""
