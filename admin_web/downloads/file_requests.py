"""Tells which requests ask for a file, which occupies a thread for as long as the client reads."""

from urllib.parse import parse_qsl

#: The argument that asks for a list as a file, and its values.
FORMAT, FORMATS = "format", ("csv", "json")
_LOG = "/log/download"
#: More arguments than any request has that is not refused.
_MOST_ARGUMENTS = 100


def is_for_file(path: str, query: str) -> bool:
    """Return whether a request asks for a whole log or for a list as a file."""
    return path.endswith(_LOG) or any(
        name == FORMAT and value in FORMATS for name, value in _arguments(query)
    )


def _arguments(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, max_num_fields=_MOST_ARGUMENTS)
    except ValueError:
        return []
