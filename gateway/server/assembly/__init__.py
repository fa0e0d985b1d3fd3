"""Parts of a gateway put together: what `app.py` names, one file for each side of the house.

Rules: as for `app.py`: concrete classes are named here and nowhere else, and what is opened here is closed here.
"""
