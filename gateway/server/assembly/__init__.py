"""Parts of the composition root, one file for each side of the gateway.

Rules: as in `app.py`: concrete classes are named here and nowhere else, and what is opened here is closed here.
"""
