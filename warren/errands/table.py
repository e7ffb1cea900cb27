"""The table of errands; nothing here loads what does them."""

from typing import NamedTuple


class Errand(NamedTuple):
    """An errand: the scope that a token needs for it, and the function that does it.

    `place` is `MODULE:FUNCTION` below `warren.errands.doing`.
    """

    scope: str
    place: str


READ, TRIGGER, OPERATE, WRITE, ADMIN = "read", "trigger", "operate", "write", "admin"

#: The errands by name: the command that sends it, or what it does for one.
ERRANDS: dict[str, Errand] = {}
