"""Shows reasons in the viewer's language.

Reasons are stored before anybody knows who will read them. A page translates the sentence and
inserts the facts; output of jobs, and texts without a reason, are shown unchanged.
"""

from flask import Flask
from flask_babel import gettext

from warren.broker.reasons.reason import Fact, Reason, Words
from warren.broker.reasons.stored import from_json


def install(app: Flask) -> None:
    """Provide `stored_text`, for texts in rows, and `reason_text` to an app's templates."""
    app.jinja_env.globals.update(stored_text=stored_text, reason_text=reason_text)


def stored_text(text: str | None, why: str | None) -> str:
    """Return a stored text, or the beginning of one, in the viewer's language.

    `why` is the reason stored beside it; it is used only if its sentence begins with the text.
    """
    reason = from_json(why) if text else None
    if reason is None or not str(reason).startswith(text or ""):
        return text or ""
    return reason_text(reason)


def reason_text(words: Words) -> str:
    """Return a reason in the viewer's language; plain texts are returned unchanged."""
    if not isinstance(words, Reason):
        return words
    facts = {name: _fact(fact) for name, fact in words.facts.items()}
    return str(gettext(words.code.sentence)) % facts


def _fact(fact: Fact) -> str | int | float:
    if isinstance(fact, tuple):
        sign: str = gettext("; ")
        return sign.join(map(reason_text, fact))
    return reason_text(fact) if isinstance(fact, Reason) else fact
