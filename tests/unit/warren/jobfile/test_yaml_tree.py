"""YAML as nodes that know their lines."""

import pytest
import yaml

from warren.errors import InvalidEntry
from warren.jobfile.yaml_reader import (
    DEPTH,
    Entry,
    YamlReader,
    boolean,
    entries,
    instant,
    is_null,
    items,
    line_of,
    shown,
    text,
    tree_of,
    whole_number,
)
from warren.scheduler.problems import Code, Problem


def node(source: str) -> yaml.Node:
    found = yaml.compose(source, Loader=yaml.SafeLoader)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("source", "value"),
    [("30", 30), ("-5", -5), ("+7", 7), ("0", 0), ("9" * 18, int("9" * 18))],
)
def test_whole_number_is_plain_decimal(source: str, value: int) -> None:
    assert whole_number(node(source), "timeout") == value


@pytest.mark.parametrize(
    "source",
    ["1.0", "0x1F", "0b1", "1:30", "1_000", "'30'", "x", "", "[1]", "9" * 19, "true", "1e3"],
)
def test_anything_else_is_no_whole_number(source: str) -> None:
    with pytest.raises(InvalidEntry, match="expected timeout to be a whole number"):
        whole_number(node(source or "~"), "timeout")


@pytest.mark.parametrize("source", ["true", "True", "yes", "on", "YES"])
def test_truth_has_all_the_spellings_of_yaml(source: str) -> None:
    assert boolean(node(source), "enabled") is True


@pytest.mark.parametrize("source", ["false", "no", "Off"])
def test_falsehood_too(source: str) -> None:
    assert boolean(node(source), "enabled") is False


@pytest.mark.parametrize("source", ["1", "'true'", "maybe", "~", "{}"])
def test_anything_else_is_no_truth(source: str) -> None:
    with pytest.raises(InvalidEntry, match="expected enabled to be true or false"):
        boolean(node(source), "enabled")


@pytest.mark.parametrize(
    ("source", "value"),
    [("abc", "abc"), ("'7'", "7"), ('"yes"', "yes"), ("|-\n  a\n  b", "a\nb"), ("!!str 7", "7")],
)
def test_text_is_text(source: str, value: str) -> None:
    assert text(node(source), "param") == value


@pytest.mark.parametrize("source", ["7", "yes", "1.5", "2026-12-01"])
def test_what_only_looks_like_text_must_be_quoted(source: str) -> None:
    with pytest.raises(InvalidEntry, match="put it in quotes"):
        text(node(source), "param")


def test_instant_needs_no_quotes() -> None:
    assert instant(node("2026-12-01T08:00:00+08:00"), "at") == "2026-12-01T08:00:00+08:00"
    assert instant(node("'tomorrow'"), "at") == "tomorrow"


def test_nothing_is_nothing() -> None:
    assert is_null(node("~"))
    assert is_null(node("null"))
    assert not is_null(node("''"))
    assert shown(node("~")) == "nothing"


def test_long_value_is_shown_shortened() -> None:
    assert len(shown(node("x" * 100_000))) < 110


def test_entries_know_their_lines_and_doubles() -> None:
    found = list(entries(node("a: 1\nb: 2\na: 3\n"), "it"))

    assert [(one.name, one.line) for one in found if isinstance(one, Entry)] == [("a", 1), ("b", 2)]
    [double] = [one for one in found if isinstance(one, InvalidEntry)]
    assert (double.line, double.text) == (3, "duplicate field 'a'")


def test_items_know_their_lines() -> None:
    assert [line_of(one) for one in items(node("- a\n-\n  b\n"), "it")] == [1, 3]


@pytest.mark.parametrize("depth", [DEPTH - 1, DEPTH])
def test_nesting_up_to_the_limit_is_read(depth: int) -> None:
    assert tree_of("[" * depth + "]" * depth, "x.yaml") is not None


def test_nesting_beyond_the_limit_is_refused_with_its_line() -> None:
    with pytest.raises(InvalidEntry) as refused:
        tree_of("\n" + "[" * (DEPTH + 1) + "]" * (DEPTH + 1), "x.yaml")

    assert refused.value.line.place == "x.yaml:2"


class TestReader:
    def test_first_mistake_does_not_hide_the_second(self) -> None:
        reader = YamlReader()
        found = reader.fields(node("a: x\nb: y\nc: 3\n"), "it", ("a", "b", "c"))

        values = [reader.value(whole_number, found.get(name)) for name in ("a", "b", "c")]

        assert values == [None, None, 3]
        assert [wrong.line for wrong in reader.wrong] == [1, 2]

    def test_what_is_not_there_is_no_mistake(self) -> None:
        reader = YamlReader()

        assert reader.value(text, None) is None
        assert reader.wrong == []

    def test_what_is_no_mapping_has_no_fields(self) -> None:
        reader = YamlReader()

        assert reader.fields(node("[a]"), "it", ("a",)) == {}
        assert [wrong.text for wrong in reader.wrong] == [
            "expected it to be a mapping, got: a list"
        ]

    def test_rule_that_raises_is_a_mistake(self) -> None:
        reader = YamlReader()

        def rule() -> None:
            raise Problem(Code.NO_JOB, id=3)

        reader.check(7, rule)

        assert [(wrong.line, wrong.text, wrong.rule) for wrong in reader.wrong] == [
            (7, "no job with id 3", "no_job")
        ]
