"""What a browser fetches when it opens the console for the first time stays small."""

import re

import pytest

from tests.support.console import Clock, Visit, make_app, signed_in
from warren.admin_web import template_globals
from warren.sql.engine import Database

#: "First page under 300 kB", nothing of it compressed.
LIMIT = 300_000
_NAMED = re.compile(r'<(?:link|script|img)\b[^>]*?(?:href|src)="([^"]+)"')
_IN_STYLES = re.compile(r"url\(['\"]?([^)'\"]+)|@import")


@pytest.mark.parametrize("has_scripts", [True, False], ids=["scripts", "no-scripts"])
@pytest.mark.parametrize("path", ["/login", "/overview?range=30"], ids=["sign-in", "dashboard"])
def test_first_page_with_all_that_it_names_is_small(
    database: Database,
    clock: Clock,
    capsys: pytest.CaptureFixture[str],
    path: str,
    *,
    has_scripts: bool,
) -> None:
    if has_scripts and not template_globals.MANIFEST.exists():
        pytest.skip("the console's scripts are not built: make console")
    app = make_app(database, clock)
    if not has_scripts:
        app.jinja_env.globals["bundle"] = lambda _name: ""
    visit = Visit(app) if path == "/login" else signed_in(app, "admin")

    sizes = {path: len(visit.get(path).data)} | _named(visit, path)

    total = sum(sizes.values())
    with capsys.disabled():
        print(f"\n{path}: {total / 1000:.0f} kB in {len(sizes)}")  # noqa: T201 - the figure
    assert any(name.endswith(".js") for name in sizes) is has_scripts
    assert total < LIMIT, sizes


def _named(visit: Visit, path: str) -> dict[str, int]:
    """Return what a page names, and its size; a style sheet names nothing further."""
    found = {}
    for url in _NAMED.findall(visit.get(path).text):
        answer = visit.get(url)
        assert answer.status_code == 200, url
        if answer.mimetype == "text/css":
            others = [one for one in _IN_STYLES.findall(answer.text) if not one.startswith("data:")]
            assert others == [], url
        found[url.partition("?")[0]] = len(answer.data)
    return found
