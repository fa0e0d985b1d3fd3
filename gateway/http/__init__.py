"""The OpenAI-style HTTP surface: parses requests, passes them to the sessions, and writes the answers.

Rules:
- This floor imports `chat`, `turns`, `config` and `model`, and the rooms below the gateway.
- It decides nothing about agents or processes: a request becomes an `Ask`, and an encoder writes the answer in one
  dialect.
- Every error is answered with the envelope of the OpenAI API.
"""
