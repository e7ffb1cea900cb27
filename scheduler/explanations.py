"""Converts reasons and other texts to the form that rows store."""

from warren.broker.messages.values import cut_message
from warren.broker.reasons.reason import Words
from warren.broker.reasons.stored import to_json
from warren.sql.explanation import Explanation


def explanation(words: Words) -> Explanation:
    """Return the stored form of a reason or text."""
    if isinstance(words, str):
        return Explanation(cut_message(words))
    return Explanation(cut_message(str(words)), to_json(words) or None)


def fault_of(error: Exception, most: int = 500) -> str:
    """Return what an error says, on one line of at most `most` characters."""
    return " ".join(str(error).split())[:most]
