"""Turns reasons and other texts into what rows store of them."""

from broker.messages import MESSAGE_LIMIT
from broker.reasons.reason import Words
from broker.reasons.stored import to_json
from sql.explanation import Explanation


def explanation(words: Words) -> Explanation:
    """Return what a row stores of a reason or text."""
    if isinstance(words, str):
        return Explanation(cut(words))
    return Explanation(cut(str(words)), to_json(words) or None)


def cut(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Return the text, shortened with a mark when it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    mark = f"… (cut, {len(text)} characters)"
    return text[: limit - len(mark)] + mark
