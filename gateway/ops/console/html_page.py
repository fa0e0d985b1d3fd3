"""Builds our HTML pages: each is one file that loads nothing, under a policy that lets nothing else run.

Rules: style and script are inlined and allowed by their digests; no attribute may contain either. Pages connect to
their own origin only.
"""

from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
NOTHING = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'; connect-src 'self'"


@dataclass(frozen=True, slots=True)
class PageAsset:
    """A page, ready to be sent with its headers."""

    html: str
    headers: dict[str, str]


class HtmlPage:
    """The parts shared by all pages; style and scripts are read once."""

    def __init__(self) -> None:
        self._style = (HERE / "page.css").read_text(encoding="utf-8")
        self._scripts = {path.stem: path.read_text(encoding="utf-8") for path in HERE.glob("*.js")}

    def page(self, title: str, body: str, *, script: str | None) -> PageAsset:
        """Build a document. `script` names one of the JavaScript files of this folder."""
        code = "" if script is None else self._scripts[script]
        element = f"<script>{code}</script>" if code else ""
        html = (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<meta name="color-scheme" content="light dark"><title>{escape(title)} - ostler</title>'
            f'<link rel="icon" href="data:,"><style>{self._style}</style></head><body>{body}{element}</body></html>'
        )
        allowed = f"; img-src data:; style-src {hashed(self._style)}"
        scripts = f"; script-src {hashed(code)}" if code else ""
        # Not "no-referrer": with it, browsers send the forms of the page with the origin "null".
        return PageAsset(
            html, {"content-security-policy": NOTHING + allowed + scripts, "referrer-policy": "same-origin"}
        )


def hashed(text: str) -> str:
    """The policy source that allows this text."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
