"""Takes secrets out of texts that leave a failed tool. Errs on the side of hiding."""

import re

HIDDEN = "[redacted]"

_SECRETS = re.compile(
    r"""
    (?:sk|pk|rk|xox[abeoprs]|gh[opsu]|glpat|hf|AKIA|AIza)[-_]?[A-Za-z0-9_\-]{12,}  # keys with a vendor's mark
    | eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]+\.[A-Za-z0-9_\-]*                     # JSON web tokens
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
