"""Which known name somebody may have meant."""

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that is most like this one; empty if none is."""
    import difflib  # noqa: PLC0415 - rarely needed, and job processes load no more than they must

    return next(iter(difflib.get_close_matches(name, list(known), 1)), "")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `, did you mean 'x'?` if a known name is similar, else nothing."""
    near = nearest(name, known)
    return f", did you mean {str(near)!r}?" if near else ""
