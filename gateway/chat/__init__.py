"""Shared by all chat surfaces (HTTP, terminal, platforms): message in; answer, command reply or notice out.

Knows no protocol. Imports `turns` and the floors below it; nothing of the surfaces.

Rules: every message of every surface passes through `frontend.py`, so each rule of a conversation (which session it
writes to, when a new session begins, how a slash command is recognised) is written once.
"""
