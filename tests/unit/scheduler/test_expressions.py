"""Expressions: what they come to, and everything that they may not do."""

from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.scheduler.expressions import (
    DIRECTIVES,
    MAX_RESULT_BYTES,
    MAX_SOURCE_BYTES,
    Fault,
    read_expression,
    read_template,
)

HUGE = 10**4_299
DEEP: Any = []
for _ in range(300_000):
    DEEP = [DEEP]
NAMES: dict[str, Any] = {
    "run_date": date(2026, 3, 31),
    "scheduled_at": datetime(2026, 3, 31, 2, 5, tzinfo=UTC),
    "job": "load",
    "app": "warehouse",
    "extract": {"result": {"rows": 3, "files": ["a.csv", "b.csv"], "note": None}},
}


def rendered(source: str) -> str:
    return read_template(source).render(NAMES)


def fault(source: str) -> str:
    with pytest.raises(Fault) as caught:
        rendered(source)
    return str(caught.value)


def test_each_template_becomes_the_text_beside_it() -> None:
    cases = {
        "plain": "plain",
        "": "",
        "two\nlines\n": "two\nlines\n",
        "--day {{ run_date }}": "--day 2026-03-31",
        "{{ run_date - 1 }} {{ run_date + 1 }}": "2026-03-30 2026-04-01",
        "{{ days(run_date, -31) }}": "2026-02-28",
        "{{ months(run_date, -1) | format('%Y%m') }}": "202602",
        "{{ run_date | months(-1) | days(1) }}": "2026-03-01",
        "{{ run_date | format('%d.%m.%Y %%') }}": "31.03.2026 %",
        "{{ scheduled_at }}": "2026-03-31T02:05:00+00:00",
        "{{ scheduled_at | format('%H:%M') }}": "02:05",
        "{{ days(scheduled_at, 1) }}": "2026-04-01",
        "{{ run_date - days(run_date, -7) }}": "7",
        "{{ app }}/{{ job }}": "warehouse/load",
        "{{ extract.result.rows + 1 }}": "4",
        "{{ extract.result.files[-1] }}": "b.csv",
        "{{ extract['result']['files'] }}": '["a.csv", "b.csv"]',
        "{{ extract.result | tojson }}": '{"rows": 3, "files": ["a.csv", "b.csv"], "note": null}',
        "{{ tojson(run_date) }}": '"2026-03-31"',
        "{{ extract.result.rows > 2 and not extract.result.note }}": "true",
        "{{ 'b.csv' in extract.result.files or false }}": "true",
        "{{ extract.result.note }}": "null",
        "{{ 1.5 - 2 }} {{ -3 }} {{ +3 }}": "-0.5 -3 3",
        "{{ 1 < 2 < 3 }} {{ 'a' == 'b' }}": "true false",
        "{# a remark #}{% raw %}{{ raw }}{% endraw %}": "{{ raw }}",
        "  {{- job -}}  !": "load!",
    }

    wrong = {source: got for source, text in cases.items() if (got := rendered(source)) != text}

    assert not wrong


def test_what_may_not_be_done_is_refused_by_name() -> None:
    cases = {
        "{{ run_date * 2 }}": "multiplication is not allowed",
        "{{ 2 ** 9999999999 }}": "the operator ** is not allowed",
        "{{ 'a' ~ 'b' }}": "the operator ~ is not allowed",
        "{{ [1, 2] }}": "a list is not allowed",
        "{{ 1 if job else 2 }}": "a condition is not allowed",
        "{{ job is defined }}": "a test is not allowed",
        "{{ extract.result.files[0:1] }}": "a slice is not allowed",
        "{% for x in job %}{% endfor %}": "a loop is not allowed",
        "{% set x = 1 %}": "an assignment is not allowed",
        "{% include 'secrets' %}": "an import is not allowed",
        "{{ job.upper() }}": "only functions can be called",
        "{{ job | upper }}": "unknown function 'upper'",
        "{{ range(9) }}": "unknown function 'range'",
        "{{ days(run_date, number=1) }}": "with values only",
        "{{ days(*run_date) }}": "with values only",
        "{{ days }}": "days is a function",
        "{{ run_date | days }}": "expected days with 2 values, got: 1",
        "{{ job.__class__ }}": "has no part '__class__'",
        "{{ run_date.year }}": "has no part 'year'",
        "{{ extract.result.columns }}": "there is no 'columns', only rows, files, note",
        "{{ extract.result.files[2] }}": "there is no item 2 of 2",
        "{{ tomorrow }}": "unknown name 'tomorrow'; there are run_date, scheduled_at, job, app",
        "{{ job + 1 }}": "cannot add '1' and 'load'",
        "{{ run_date < job }}": "cannot compare '2026-03-31' with 'load'",
        "{{ run_date + 9999999999 }}": "there is no date",
        "{{ days(run_date, 9999) }}": "expected days with a number up to 3660",
        "{{ months(run_date, true) }}": "expected months with a number",
        "{{ days(job, 1) }}": "expected days of a date, got: load",
        "{{ run_date | format('%1000000000d') }}": "in format, got: '%1'",
        "{{ run_date | format('%') }}": "in format, got: '%'",
        "{{ job | format('%Y') }}": "expected format of a date, got: load",
        "{{ run_date": "(line 1)",
        "{{ }}": "(line 1)",
        "{{ " + "(" * 1_500 + "1" + ")" * 1_500 + " }}": "nested too deeply",
        "{{ " + "not " * 900 + "1 }}": "nested too deeply",
        "x" * (MAX_SOURCE_BYTES + 1): "longer than 4,096 bytes",
    }

    wrong = {source: got for source, word in cases.items() if word not in (got := fault(source))}

    assert not wrong


#: Values that a hand, another version or a handler may have left behind, by name.
NASTY: dict[str, Any] = {
    **NAMES,
    "huge": HUGE,
    "half": "\ud800",
    "deep": DEEP,
    "nan": float("nan"),
    "naive": datetime(9999, 12, 31, 23, 59),  # noqa: DTZ001 - what aware ones cannot be compared with
    "odd": {"a": HUGE, "b": ["\udfff"], "c": {1, 2}, "d": object()},
}


def test_whatever_goes_wrong_in_an_expression_is_a_fault_that_can_be_stored() -> None:
    cases = {
        "extract.result[extract.result]": "has no part",
        "extract.result in extract.result": "cannot compare",
        "huge + 0.5": "numbers of up to 1,000 digits",
        "huge": "numbers of up to 1,000 digits",
        "odd.a": "numbers of up to 1,000 digits",
        "0x" + "F" * 4_000: "numbers of up to 1,000 digits",
        "9" * 1_000 + " + 1": "numbers of up to 1,000 digits",
        "1e999": "numbers of up to 1,000 digits",
        "nan": "numbers of up to 1,000 digits",
        "run_date - " + "9" * 900: "there is no date",
        "days(run_date, 0x" + "F" * 4_000 + ")": "numbers of up to 1,000 digits",
        "'\\ud800'": "half a character: \\ud800",
        "half": "half a character: \\ud800",
        "odd.b": "half a character: \\udfff",
        "half + 1": "cannot add '1' and '\\ud800'",
        "half < 1": "cannot compare",
        "odd[half]": "there is no '\\ud800'",
        "format(run_date, half)": "half a character: \\ud800",
        "format(run_date, '\\ud800')": "half a character: \\ud800",
        "deep": "cannot be written as JSON",
        "deep == deep[0]": "RecursionError",
        "deep + 1": "cannot be written as JSON",
        "odd.c": "cannot be written as JSON",
        "odd.d": "cannot be written as JSON",
        "scheduled_at < naive": "cannot compare",
        "days(naive, 1)": "there is no date",
        "naive + 1": "there is no date",
        "1" * 4_090: "numbers of up to 1,000 digits",
    }

    wrong = {}
    for source, word in cases.items():
        try:
            got = read_template("{{" + source + "}}").render(NASTY)
        except Fault as caught:
            got = str(caught)
            got.encode()
        if word not in got:
            wrong[source[:60]] = got[:200]

    assert not wrong


_ATOMS = st.sampled_from(
    [*NASTY, "odd.a", "odd.b", "extract.result", "0", "-1", "9e307", "0x" + "F" * 830, "true", "''"]
)
_EXPRESSIONS = st.recursive(
    _ATOMS,
    lambda part: st.one_of(
        st.tuples(part, st.sampled_from(["+", "-", "<", "==", "in", "and", "or"]), part).map(
            lambda three: "({} {} {})".format(*three)
        ),
        st.tuples(part, part).map(lambda two: "{}[{}]".format(*two)),
        st.tuples(part, st.sampled_from(["tojson", "days(1)", "months(-1)", "format('%Y')"])).map(
            lambda two: "({} | {})".format(*two)
        ),
        part.map("-{}".format),
    ),
    max_leaves=6,
)


@given(_EXPRESSIONS)
def test_any_expression_over_any_values_is_a_text_or_a_fault_that_can_be_stored(
    source: str,
) -> None:
    try:
        got = read_template("{{ " + source + " }}").render(NASTY)
    except Fault as caught:
        got = str(caught)

    assert len(got.encode()) <= MAX_RESULT_BYTES


def test_a_text_that_becomes_too_long_is_refused() -> None:
    names = {"big": "é" * (MAX_RESULT_BYTES // 4)}

    assert len(read_template("{{ big }}{{ big }}").render(names).encode()) == MAX_RESULT_BYTES
    with pytest.raises(Fault, match="longer than 65,536 bytes"):
        read_template("{{ big }}{{ big }}.").render(names)


def test_an_expression_is_read_with_and_without_its_braces() -> None:
    assert read_expression("extract.result.rows > 2")(NAMES) is True
    assert read_expression("{{ extract.result.files }}")(NAMES) == ["a.csv", "b.csv"]
    for text in ("", "{{ job }}{{ app }}", "{{ job }} more", "{% set x = 1 %}"):
        with pytest.raises(Fault):
            read_expression(text)


def test_a_template_knows_the_names_that_it_reads() -> None:
    assert read_template("{{ days(run_date, 1) }} {{ load.result.rows }}").names == {
        "run_date",
        "load",
    }


@given(st.text(alphabet="{}%#()[]'\"|.,+-*/~ abc019_<>=!\n", max_size=60))
def test_any_text_is_rendered_or_refused(source: str) -> None:
    with suppress(Fault):
        assert isinstance(rendered(source), str)


@given(st.text(alphabet=f"{DIRECTIVES}%- 1", max_size=12))
def test_any_format_is_short_or_refused(pattern: str) -> None:
    source = "{{ scheduled_at | format(" + repr(pattern) + ") }}"
    with suppress(Fault):
        assert len(rendered(source)) <= 10 * max(1, len(pattern))
