"""What a row keeps of a reason: its English sentence for people, and its code and facts."""

from typing import NamedTuple


class Explanation(NamedTuple):
    """A text, and as JSON the reason that it tells; None: the text is somebody's own words."""

    text: str = ""
    why: str | None = None
