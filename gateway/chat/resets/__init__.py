"""When a conversation begins anew by itself: `policy.py` decides, `policies.py` knows platforms, `expiry.py` acts."""
