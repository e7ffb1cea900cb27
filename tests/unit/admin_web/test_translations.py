"""Every text of the console is there in Chinese, with the same places for values."""

import re
from pathlib import Path

from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po

from warren import admin_web
from warren.broker.reasons import Why
from warren.scheduler.jobs.spec import RULED
from warren.scheduler.problems import Code, Word
from warren.scheduler.routing.routes import ROUTE_WORDS
from warren.scheduler.schedules.registry import KINDS
from warren.scheduler.views.board_view import Says
from warren.sql.run_status import KIND_WORDS

CONSOLE = Path(admin_web.__file__).parent
METHODS = [("templates/**.html", "jinja2"), ("**.py", "python")]
KEYWORDS = {"_": None, "gettext": None, "lazy_gettext": None, "ngettext": (1, 2)}


def texts() -> dict[str, str]:
    """Return each text of templates, Python and refusals with the place where it stands."""
    found = {code.sentence: str(code) for code in Code}
    found |= {word.value: repr(word) for word in Word}
    found |= {why.sentence: repr(why) for why in Why}
    found |= dict.fromkeys((*KIND_WORDS.values(), *ROUTE_WORDS.values()), "a fact")
    found |= {says.sentence: repr(says) for says in Says}
    found |= {field.name: f"the field {field.name}" for field in RULED}
    for place, line, message, _comments, _context in extract_from_dir(
        str(CONSOLE), METHODS, keywords=KEYWORDS, strip_comment_tags=True
    ):
        for text in (message,) if isinstance(message, str) else message:
            found.setdefault(text, f"{place}:{line}")
    return found | {
        text: f"schedule kind {kind.kind}"
        for kind in KINDS.values()
        for text in (kind.title, kind.advice, getattr(kind, "sentence", kind.title))
    }


def catalogue(name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(CONSOLE.glob(f"translations/{name}/*.po")):
        with path.open("rb") as source:
            found |= {message.id: message.string for message in read_po(source) if message.id}
    return found


def chinese() -> dict[str, str]:
    return catalogue("zh_CN")


def places(text: str) -> list[str]:
    return sorted(re.findall(r"%\(\w+\)[sdr]", text))


def test_every_text_is_translated() -> None:
    known = chinese()

    assert len(texts()) > 100
    assert [f"{place}: {text!r}" for text, place in texts().items() if not known.get(text)] == []


def test_no_translation_is_left_of_a_text_that_is_gone() -> None:
    assert sorted(set(chinese()) - set(texts())) == []


def test_values_have_the_same_places() -> None:
    assert [text for text, said in chinese().items() if places(text) != places(said)] == []


def templates() -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(CONSOLE.rglob("templates/**/*.html"))}


def test_no_text_stands_bare_in_a_template() -> None:
    """Words between tags that go through no `_()` would be English for everybody.

    The page of the API's description is in English, as that is.
    """
    bare = {}
    console = {name: text for name, text in templates().items() if name != "description.html"}
    for name, text in console.items():
        source = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", "", text, flags=re.DOTALL)
        source = re.sub(r"<(code|svg|title)\b.*?</\1>", "", source, flags=re.DOTALL)
        found = [words.strip() for words in re.findall(r">([^<]*[A-Za-z]{3}[^<]*)<", source)]
        bare[name] = [words for words in found if words != "Warren"]

    assert len(bare) > 40
    assert {name: words for name, words in bare.items() if words} == {}


def test_nothing_in_a_template_needs_what_the_policy_refuses() -> None:
    refused = re.compile(r"\sstyle=|\son[a-z]+=|<style|<script(?! src=)|javascript:")
    found = {name: refused.findall(source) for name, source in templates().items()}

    assert {name: parts for name, parts in found.items() if parts} == {}


def test_traditional_chinese_has_every_text_with_the_same_places() -> None:
    """After a change of the simplified ones: scripts/make-traditional-chinese."""
    simplified, traditional = chinese(), catalogue("zh_TW")

    assert sorted(traditional) == sorted(simplified)
    assert [text for text, said in traditional.items() if not said] == []
    assert [text for text, said in traditional.items() if places(text) != places(said)] == []


def test_traditional_chinese_is_written_in_its_own_characters() -> None:
    traditional = "".join(catalogue("zh_TW").values())

    assert re.findall("[执运务调数认经过进这为]", traditional) == []
    assert "排程" in traditional
