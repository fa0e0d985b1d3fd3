"""A model server that needs no model: four API dialects on loopback, one little language for what to answer.

Started as `python -m tools.fake_llm --log FILE`; it prints its port and serves until stdin ends or it is killed.
"""
