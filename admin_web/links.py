"""Links to pages that another group of pages has."""

from typing import Any

from flask import url_for
from werkzeug.routing import BuildError


def link_to(endpoint: str, **values: Any) -> str:
    """Return the path of a page, empty when this console has no such page."""
    try:
        return url_for(endpoint, **values)
    except BuildError:
        return ""
