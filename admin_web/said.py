"""What Warren's other parts say, in the viewer's language.

Reasons, refusals and results are made, logged and stored in English: whoever makes them does not
know who will read them. What a page shows of them is found again here by its form; what has none,
such as a job's own message, stays as it is.
"""

from collections.abc import Sequence

from flask import Flask
from flask_babel import gettext

from admin_web.language import language
from admin_web.phrase import LONGEST, Phrase
from admin_web.refusal_phrases import PARTS, REFUSALS
from admin_web.run_phrases import RUNS

_SENTENCES = (*REFUSALS, *RUNS)
#: Places whose values are sentences or words of Warren's too; `what` is one that is known.
_NESTED = {"what", "why", "rule"}


def install(app: Flask) -> None:
    """Give an app's templates the filter `said`."""
    app.jinja_env.filters["said"] = lambda text: said(text or "")


def said(text: str) -> str:
    """Return a text that Warren has made in the viewer's language, any other one unchanged."""
    if language() == "en" or len(text) > LONGEST or "\n" in text:
        return text
    return _one(text, _SENTENCES) or _several(text) or _with_note(text) or text


def _one(text: str, phrases: Sequence[Phrase]) -> str:
    for known in phrases:
        if (values := known.values(text)) is not None:
            nested = {name: _nested(value) for name, value in values.items() if name in _NESTED}
            if nested.get("what") != "":
                found = {name: nested.get(name) or value for name, value in values.items()}
                return str(gettext(known.text, **found))
    return ""


def _nested(value: str) -> str:
    return _one(value, PARTS) or _one(value, _SENTENCES) or _several(value)


def _several(text: str) -> str:
    """Return sentences with semicolons between, of which at least one is known."""
    parts = text.split("; ")
    found = [_one(part, _SENTENCES) or _with_note(part) for part in parts]
    if len(parts) == 1 or not any(found):
        return ""
    sign: str = gettext("; ")
    return sign.join(new or old for new, old in zip(found, parts, strict=True))


def _with_note(sentence: str) -> str:
    """Return a sentence with what is noted in brackets behind it."""
    head, opening, note = sentence.removesuffix(")").partition(" (")
    if not opening or not sentence.endswith(")"):
        return ""
    found = _one(note, _SENTENCES) or _several(note)
    text = _one(head, _SENTENCES) or head
    return str(gettext("%(text)s (%(note)s)", text=text, note=found)) if found else ""
