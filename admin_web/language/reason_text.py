"""Reasons as sentences in the viewer's language.

Reasons are made and stored where nobody knows who will read them. A page translates their sentence
and puts the facts into it; a job's own words, and texts without a reason, stay as they are.
"""

from flask import Flask
from flask_babel import gettext

from broker.reasons.reason import Fact, Reason, Words
from broker.reasons.stored import from_json


def install(app: Flask) -> None:
    """Give an app's templates `stored_text`, for what rows hold, and `reason_text`."""
    app.jinja_env.globals.update(stored_text=stored_text, reason_text=reason_text)


def stored_text(text: str | None, why: str | None) -> str:
    """Return a stored text, or the beginning of one, in the viewer's language.

    The reason stored beside it counts only where it says what the text does.
    """
    reason = from_json(why) if text else None
    if reason is None or not str(reason).startswith(text or ""):
        return text or ""
    return reason_text(reason)


def reason_text(words: Words) -> str:
    """Return a reason in the viewer's language, other words as they are."""
    if not isinstance(words, Reason):
        return words
    facts = {name: _fact(fact) for name, fact in words.facts.items()}
    return str(gettext(words.code.sentence)) % facts


def _fact(fact: Fact) -> str | int | float:
    if isinstance(fact, tuple):
        sign: str = gettext("; ")
        return sign.join(map(reason_text, fact))
    return reason_text(fact) if isinstance(fact, Reason) else fact
