"""What people and conversations say to each other besides turns: names of sessions, lists, exports, summaries.

Rules: no module here knows a face; what decides is pure, what looks something up gets the store as an argument.
"""
