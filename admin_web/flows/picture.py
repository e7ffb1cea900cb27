"""What a template draws of a flow: boxes with words and a state, and lines between them."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flask_babel import LazyString, lazy_gettext

from warren.admin_web.flows.layout import BOX_HEIGHT, BOX_WIDTH, Box, Drawing, Edge
from warren.admin_web.language.labels import State
from warren.scheduler.flows.graph import Condition

#: Characters of a name, and of the line below it, that fit into a box.
MAX_NAME, MAX_DETAIL = 19, 25
#: Words of the edges that are no usual ones.
CONDITION: dict[Condition, LazyString] = {
    Condition.FAILURE: lazy_gettext("on failure"),
    Condition.ALWAYS: lazy_gettext("always"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A box: its name, the line below it, and where it leads; `is_stack`: it stands for several.

    `title` says all of it, for a tooltip and a screen reader.
    """

    box: Box
    name: str
    detail: str
    title: str
    state: State | None = None
    url: str = ""
    is_stack: bool = False
    width: int = BOX_WIDTH
    height: int = BOX_HEIGHT

    @property
    def short_name(self) -> str:
        """The name, shortened to fit."""
        return _short(self.name, MAX_NAME)

    @property
    def short_detail(self) -> str:
        """The line below it, shortened to fit."""
        return _short(self.detail, MAX_DETAIL)


@dataclass(frozen=True, slots=True)
class Line:
    """An edge; `is_true` None = it is not known yet.

    `word` says what must become of the node that it leaves, if that is no success. It stands where
    the edge arrives, so only if nothing else arrives there.
    """

    edge: Edge
    is_true: bool | None
    word: LazyString | str

    @property
    def look(self) -> str:
        """Its CSS classes."""
        known = {True: " taken", False: " dead", None: ""}[self.is_true]
        return f"{self.edge.condition}{known}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A drawing of `width` by `height` pixels."""

    width: int
    height: int
    marks: Sequence[Mark]
    lines: Sequence[Line]


def picture(
    drawing: Drawing,
    mark: Callable[[Box], Mark],
    is_true: Callable[[Edge], bool | None] = lambda _edge: None,
) -> Picture:
    """Return the picture of a drawing, with the given marks and states of edges."""
    arriving = Counter(edge.node for edge in drawing.edges)

    def line(edge: Edge) -> Line:
        word = CONDITION.get(edge.condition, "") if arriving[edge.node] == 1 else ""
        return Line(edge, is_true(edge), word)

    return Picture(
        width=drawing.width,
        height=drawing.height,
        marks=[mark(box) for box in drawing.boxes],
        lines=[line(edge) for edge in drawing.edges],
    )


def _short(text: str, most: int) -> str:
    """Return a text that fits; wide characters count twice."""
    width, kept = 0, ""
    for character in text:
        width += 2 if ord(character) > 0x2E7F else 1  # noqa: PLR2004 - from here on they are wide
        if width > most:
            return f"{kept[:-1]}…"
        kept += character
    return text
