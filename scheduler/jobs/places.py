"""Where a job is declared: in job files, in the code of handlers, or nowhere but in its row."""

from typing import NamedTuple

from warren.scheduler.problems import Code, Problem

#: What the row of a job says that a job file has created or changed.
IN_FILE = "file"
_IN_CODE = "code:"
#: The longest name of a module or file with handlers, in characters: the column, less the prefix.
MAX_MODULE = 250


def in_code(module: str) -> str:
    """Return what the row of a job says that the handlers of a module declare.

    Raises:
        Problem: the module's name is too long.

    """
    if not 0 < len(module) <= MAX_MODULE:
        raise Problem(Code.MODULE_TOO_LONG, most=MAX_MODULE, got=module[:MAX_MODULE])
    return _IN_CODE + module


def module_of(place: str | None) -> str:
    """Return the module in which a job is declared; empty if it is not declared in code."""
    return place.removeprefix(_IN_CODE) if place and place.startswith(_IN_CODE) else ""


def words_of(place: str | None) -> str:
    """Return a place in words; empty if there is none."""
    if module := module_of(place):
        return f"code, {module}"
    return "a job file" if place else ""


class Origin(NamedTuple):
    """Where the jobs that are applied are declared.

    Attributes:
        place: as in the rows.
        take_over: whether jobs that are declared elsewhere are declared here from now on.
        app: the only app, besides those of the jobs, in which jobs that code no longer declares
            are deleted; empty = they are deleted in all.

    """

    place: str = IN_FILE
    take_over: bool = False
    app: str = ""

    def difference(self, before: str | None) -> str:
        """Return how the place of a job declared there changes; empty = no line is needed.

        Undeclared jobs that a job file creates or changes become its own.
        """
        is_new = before != self.place and (before or self.place != IN_FILE)
        return f"declared in: {words_of(self.place)}" if is_new else ""

    def problem(self, before: str | None) -> Problem | None:
        """Return why a job that is declared there cannot be declared here; None = it can."""
        if not before or before == self.place or self.take_over:
            return None
        if module := module_of(before):
            return Problem(Code.DECLARED_IN_CODE, "name", module=module)
        return Problem(Code.DECLARED_IN_FILE, "name")


#: A job file that leaves alone what is declared in code.
BY_FILE = Origin()
