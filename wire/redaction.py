"""What looks like a secret, in one place, and how it is removed from texts. Every sink uses it: log lines, stderr
tails, errors.

Rules:
- A text is redacted first and cut afterwards, because half a secret no longer looks like one.
- When in doubt a text is redacted.
- The time is linear in any text: it is spent on the loop, and the text comes from outside.
"""

import re
from collections.abc import Iterable

HIDDEN = "[redacted]"

# What precedes a key: the start of a word, or an escape of JSON (`\n`) or of a URL (`%20`), which ends in a letter or a
# digit.
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=%[0-9A-Fa-f]{2}))"
_MARKED = rf"""
    {_START}(?:
        (?:sk|pk|rk|xai|gsk|pplx|tvly|nvapi)[-_][\w-]{{12,}}                # OpenAI, Anthropic, Stripe, others
      | xox[a-z]-[\w-]{{10,}} | xapp-[\w-]{{10,}}                           # Slack
      | gh[a-z]_\w{{12,}} | github_pat_\w{{12,}} | glpat-[\w-]{{12,}}       # GitHub, GitLab
      | hf_\w{{12,}} | npm_\w{{20,}} | pypi-[\w-]{{20,}}                    # Hugging Face, npm, PyPI
      | (?:AKIA|ASIA)[0-9A-Z]{{12,}} | AIza[\w-]{{12,}} | ya29\.[\w-]{{12,}}  # AWS, Google
      | eyJ[\w-]{{8,512}}\.[\w-]+\.[\w-]*                                   # JSON web tokens
    )
  | (?<=://)[^\s/:@]+:[^\s/@]+(?=@)                                         # user:password in a URL
"""
_NAMED = re.compile(
    r"""(?ix)
    ( bearer\s+
    | authorization \\?["']? \s*[=:]\s* \\?["']? (?:(?:basic|digest|negotiate|token)\s+)?
    | (?:api[_-]?key|token|secret|password|passwd) \\?["']? \s*[=:]\s* \\?["']?
    )
    (?!bearer\b) [^\s"',;&\\]{4,}
    """
)
_KEYS = re.compile(_MARKED, re.VERBOSE)
_KEYS_AND_DIGESTS = re.compile(
    _MARKED + r"| (?<![0-9A-Fa-f])[0-9A-Fa-f]{32,}(?![0-9A-Fa-f])  # our own tokens, digests, hex keys", re.VERBOSE
)
LONGEST_SECRET = 4_096
"""Characters beyond a cut that are examined before the cut is made."""


def without_keys(text: str) -> str:
    """The text without anything marked as a key. Digests stay: log lines identify requests, sessions and traces by
    them.
    """
    return _KEYS.sub(HIDDEN, text)


def redacted(text: str) -> str:
    """The text without anything marked as a key, long hexadecimal numbers, and what follows `password=` and the
    like.
    """
    return _NAMED.sub(lambda match: match[1] + HIDDEN, _KEYS_AND_DIGESTS.sub(HIDDEN, text))


def excerpt(text: str, limit: int) -> str:
    """The beginning of the text, without secrets. Text far beyond the limit is not examined."""
    most = 16 * limit
    if len(text) > most:
        text = next(iter(text[:most].rsplit(None, 1)), "")
    return redacted(text)[:limit]


class Redaction:
    """Hides the given strings, and what looks like a secret."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        lines = {line for secret in secrets for line in secret.splitlines() if len(line) >= 6}
        # Longest first: a secret that contains another must not leave its rest behind.
        self._secrets = sorted(lines, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return redacted(text)

    def excerpt(self, text: str, size: int) -> str:
        """The beginning of the text: redacted first, then cut."""
        return self(text[: size + LONGEST_SECRET])[:size]
