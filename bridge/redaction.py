"""Takes secrets out of texts that leave a failed tool. Errs on the side of hiding.

Rules: redacted first, cut afterwards, because half a secret no longer looks like one. The time is linear in the text,
whatever is in it: it is spent on the loop, and the text comes from outside.
"""

import re

HIDDEN = "[redacted]"

_SECRETS = re.compile(
    r"""
    (?:sk|pk|rk|xox[abeoprs]|gh[opsu]|glpat|hf|AKIA|AIza)[-_]?[A-Za-z0-9_\-]{12,}  # keys with a vendor's mark
    | eyJ[A-Za-z0-9_\-]{8,512}\.[A-Za-z0-9_\-]+\.[A-Za-z0-9_\-]*                  # JSON web tokens
    | (?<![0-9A-Fa-f])[0-9A-Fa-f]{32,}(?![0-9A-Fa-f])                             # our own tokens, digests, hex keys
    | (?<=://)[^\s/:@]+:[^\s/@]+(?=@)                                             # user:password in a URL
    """,
    re.VERBOSE,
)
_NAMED = re.compile(
    r"(?i)\b(bearer\s+|(?:api[_-]?key|access[_-]?token|token|secret|password|passwd|authorization)[\"']?\s*[=:]\s*[\"']?)"
    r"(?!bearer\b)[^\s\"',;&]{4,}"
)


def redacted(text: str) -> str:
    return _NAMED.sub(lambda match: match[1] + HIDDEN, _SECRETS.sub(HIDDEN, text))


def excerpt(text: str, limit: int) -> str:
    """The beginning of the text, without secrets. What is far beyond the limit is not even looked at."""
    most = 16 * limit
    if len(text) > most:
        text = text[:most].rsplit(None, 1)[0]
    return redacted(text)[:limit]
