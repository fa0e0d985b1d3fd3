"""Sessions and their turns: what every surface (HTTP, chat platforms, terminal, editors) runs on.

Rules:
- This floor imports `model`, `config` and `stores`, and the rooms below the gateway. Memory reaches it as a
  `ConversationObserver` and as sources of tools.
- It knows no surface: each surface contributes an `Ask`, and reads the `AnswerStream` that its turn writes.
- A session has at most one running turn. `Session.run` is the whole course of a turn.
"""
