"""Chat faces: one message of a person in, an answer, a command's reply or a notice out. Knows no protocol.

Rules: whatever is said by HTTP, in a terminal or on a platform comes through `face.py`, so every rule of a conversation
(which session it is, when it begins anew, what a slash means) is written once.
"""
