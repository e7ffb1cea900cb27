"""Converts reasons and other texts to the form that rows store."""

from broker.messages.values import MESSAGE_LIMIT
from broker.reasons.reason import Words
from broker.reasons.stored import to_json
from sql.explanation import Explanation


def explanation(words: Words) -> Explanation:
    """Return the stored form of a reason or text."""
    if isinstance(words, str):
        return Explanation(cut(words))
    return Explanation(cut(str(words)), to_json(words) or None)


def cut(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Return a text, cut to `limit` characters with a mark if it is longer."""
    if len(text) <= limit:
        return text
    mark = f"… (cut, {len(text)} characters)"
    return text[: limit - len(mark)] + mark


def fault_of(error: Exception, most: int = 500) -> str:
    """Return what an error says, on one line of at most `most` characters."""
    return " ".join(str(error).split())[:most]
