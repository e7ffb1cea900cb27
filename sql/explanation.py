"""The stored form of a reason: its English sentence, and its code and facts."""

from typing import NamedTuple


class Explanation(NamedTuple):
    """A text, and the reason it comes from as JSON; None = the text is not made from a reason."""

    text: str = ""
    why: str | None = None
