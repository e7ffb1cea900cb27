"""Shows problems in the viewer's language."""

from flask_babel import gettext

from warren.scheduler.problems import FieldName, Problem, Word


def problem_text(problem: Problem) -> str:
    """Return a problem as a sentence in the viewer's language."""
    facts = {
        name: gettext(str(fact)) if isinstance(fact, Word | FieldName) else fact
        for name, fact in problem.facts.items()
    }
    return str(gettext(problem.code.sentence, **facts))
