"""Sessions and their turns: what every surface (HTTP, chat platforms, terminal, editors) runs on.

Rules:
- This floor imports `model`, `config`, `stores` and `memory`, and the rooms `pool` and `bridge`. It knows no surface:
  each surface contributes an `Ask` and an `AnswerSink`.
- A session has at most one running turn. `Session.run` is the whole course of a turn.
"""
