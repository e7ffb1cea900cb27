"""Names available in all templates: the viewer, the theme, URLs of static files, line breaks."""

import hashlib
import json
import re
from functools import partial
from pathlib import Path

from flask import Flask, request, url_for
from markupsafe import Markup, escape

from warren.admin_web.forms.console_form import fresh_key
from warren.admin_web.language import labels
from warren.admin_web.language.labels import problem_text
from warren.admin_web.links import link_to, query_string, same_list
from warren.admin_web.url_routes import here, here_with_query, home
from warren.admin_web.visitors import known_visitor
from warren.scheduler.views.run_view import run_progress

STATIC = Path(__file__).parent / "static"
MANIFEST = STATIC / "bundle" / "manifest.json"
THEMES = ("auto", "light", "dark")
THEME_COOKIE = "warren_theme"


def install(app: Flask) -> None:
    """Provide these names to an app's templates."""
    versions = {path.name: _version(path) for path in STATIC.glob("*.*")}
    app.jinja_env.globals.update(
        viewer=known_visitor,
        theme=theme,
        asset=partial(_asset, versions),
        bundle=partial(_bundle, _manifest()),
        labels=labels,
        link_to=link_to,
        here=here,
        here_with_query=here_with_query,
        home=home,
        same_list=same_list,
        once_key=fresh_key,
        query_string=query_string,
        problem_text=problem_text,
        run_progress=run_progress,
    )
    app.jinja_env.filters["breakable"] = _breakable


def scripts_are_built() -> bool:
    """Return whether pages have scripts; an install from source without Node.js lacks them."""
    return MANIFEST.exists()


def theme() -> str:
    """Return the request's theme: from the user, the cookie, or the browser ("auto")."""
    known = known_visitor()
    for wanted in (known.theme if known else "", request.cookies.get(THEME_COOKIE, "")):
        if wanted in THEMES:
            return wanted
    return "auto"


def _breakable(text: str) -> Markup:
    """Return an address that may break after its parts; browsers break after hyphens anyway."""
    return Markup(re.sub(r"([.:_])", r"\1<wbr>", str(escape(text))))  # noqa: S704 - it is escaped


def _asset(versions: dict[str, str], name: str) -> str:
    """Return the URL of a static file; it changes with the content, so browsers may cache it."""
    return url_for("static", filename=name, v=versions[name])


def _bundle(manifest: dict[str, str], name: str) -> str:
    """Return the URL of a built script or style sheet; empty if it is not built."""
    return url_for("static", filename=f"bundle/{manifest[name]}", v="1") if name in manifest else ""


def _manifest() -> dict[str, str]:
    """Return the built files by name; their file names contain a hash of the content."""
    try:
        manifest = json.loads(MANIFEST.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return (
        {str(name): str(path) for name, path in manifest.items()}
        if isinstance(manifest, dict)
        else {}
    )


def _version(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
