"""Languages: texts in the code are English; translations are read from .po files at startup."""

import io
from functools import cache
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.support import NullTranslations, Translations
from flask import Flask, request
from flask_babel import Babel, Domain, get_locale

from warren.admin_web.visitors import known_visitor

FOLDER = Path(__file__).parents[1] / "translations"
#: The language of the texts in code and rows.
ENGLISH = "en"
#: By BCP 47 tag: Babel's name, and the name in the language itself.
LANGUAGES = {
    ENGLISH: ("en", "English"),
    "zh-CN": ("zh_CN", "简体中文"),
    "zh-TW": ("zh_TW", "繁體中文"),
}
#: Subtags of Chinese in traditional characters.
_TRADITIONAL = frozenset({"hant", "tw", "hk", "mo"})
COOKIE = "warren_language"


class Texts(Domain):  # type: ignore[misc] # has no types
    """All translations, in memory; no compiled files are needed."""

    def __init__(self) -> None:
        super().__init__()
        self._by_language = {folder.name: _read(folder) for folder in sorted(FOLDER.iterdir())}

    def get_translations(self) -> NullTranslations:
        """Return the translations of the request's language; English needs none."""
        locale = get_locale()
        name = f"{locale.language}_{locale.territory}" if locale else ""
        return self._by_language.get(name, NullTranslations())


class TextsFromMemory(Babel):  # type: ignore[misc] # has no types
    """Flask-Babel that reads no folder."""

    def __init__(self, texts: Texts) -> None:
        super().__init__()
        self.domain_instance = texts


def install(app: Flask) -> None:
    babel = TextsFromMemory(Texts())
    babel.init_app(app, locale_selector=lambda: LANGUAGES[language()][0])
    app.jinja_env.globals.update(language=language, languages=LANGUAGES)


def language() -> str:
    """Return the tag of the request's language: from the user, the cookie, or the browser."""
    known = known_visitor()
    for wanted in (known.locale if known else "", request.cookies.get(COOKIE, "")):
        if wanted in LANGUAGES:
            return wanted
    for wanted, quality in request.accept_languages:
        if quality and (match := _known(wanted)):
            return match
    return ENGLISH


def _known(wanted: str) -> str:
    """Return our tag for a browser's tag; empty if we do not have the language."""
    first, *rest = wanted.lower().split("-")
    if first == "zh":
        is_traditional = "hans" not in rest and not _TRADITIONAL.isdisjoint(rest)
        return "zh-TW" if is_traditional else "zh-CN"
    return ENGLISH if first == ENGLISH else ""


@cache
def _read(folder: Path) -> Translations:
    """Return all texts of one language; each page group may have its own file."""
    catalog = Catalog(locale=folder.name)
    for path in sorted(folder.glob("*.po")):
        with path.open("rb") as source:
            for message in read_po(source, locale=folder.name):
                if message.id:
                    catalog[message.id] = message
    compiled = io.BytesIO()
    write_mo(compiled, catalog)
    compiled.seek(0)
    return Translations(compiled)
