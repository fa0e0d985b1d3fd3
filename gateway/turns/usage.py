"""Token counts of an answer, as the APIs report them.

Rule: a count that the agent did not report is estimated from characters, and the result then says `"estimated": true`.
"""

from ostler.pool.events import Usage
from ostler.wire.json import JsonObject

CHARACTERS_PER_TOKEN = 4


def usage_of(reported: Usage | None, read: int, written: int) -> JsonObject:
    """Return the token counts. `read` and `written` are characters, used if the agent reported no counts."""
    told = reported is not None and reported.input_tokens is not None and reported.output_tokens is not None
    if told and reported is not None:
        given, made = reported.input_tokens or 0, reported.output_tokens or 0
    else:
        given, made = estimated(read), estimated(written)
    usage: JsonObject = {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given + made,
    }
    return usage if told else {**usage, "estimated": True}


def estimated(characters: int) -> int:
    """Return the approximate number of tokens, rounded up."""
    return -(-characters // CHARACTERS_PER_TOKEN)
