"""Property tests here have no deadline: other work on the machine must not decide what is correct."""

from hypothesis import settings

settings.register_profile("wire", deadline=None, max_examples=150)
settings.load_profile("wire")
