"""Reasons: one sentence for each, all facts given, and read from JSON only if it is a known one."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.broker.messages import HealthIssue
from warren.broker.reasons import Reason, Why
from warren.broker.stored_reasons import DEPTH_LIMIT, REASON_LIMIT, from_json, places, to_json
from warren.scheduler.membership.self_health import SelfIssue

ROOT = Path(__file__).parents[3]
PACKAGES = ("executor", "scheduler", "sql", "warren", "admin_web")


def calls() -> Iterator[tuple[str, str, frozenset[str | None]]]:
    """Give each call of a code in our packages: where, which code, and the names of its facts."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            source = path.read_text()
            if "warren.broker.reasons" not in source:
                continue
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Call) and _is_code(node.func):
                    facts = frozenset(keyword.arg for keyword in node.keywords)
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node.func.attr, facts


def _is_code(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "Why"
    )


def test_no_two_codes_have_the_same_sentence() -> None:
    assert [name for name, code in Why.__members__.items() if name != code.name] == []


def test_every_call_gives_a_fact_for_each_place_of_the_sentence() -> None:
    wrong = [
        f"{place}: {code}({', '.join(sorted(map(str, facts)))})"
        for place, code, facts in calls()
        if facts != places(Why[code])
    ]

    assert wrong == []


def test_every_code_is_given_somewhere() -> None:
    given = {code for _, code, _ in calls()} | {
        issue.why.name for issue in (*HealthIssue, *SelfIssue)
    }

    assert sorted(set(Why.__members__) - given) == []


def test_no_sentence_names_a_constant_of_the_code() -> None:
    constant = re.compile(r"\b(?!WARREN_)[A-Z]+_[A-Z]+|MISFIRE|CRON")

    assert [code for code in Why if constant.search(code.sentence)] == []


def test_each_sentence_is_made_of_its_facts_and_survives_its_way_through_json() -> None:
    reasons = {code: code(**{name: f"<{name}>" for name in places(code)}) for code in Why}

    assert {
        code: str(reason)
        for code, reason in reasons.items()
        if "%(" in str(reason) or not all(f"<{name}>" in str(reason) for name in places(code))
    } == {}
    assert [code for code, one in reasons.items() if from_json(to_json(one)) != one] == []


TIMED_OUT = Why.TIMED_OUT(seconds="5")


def test_reasons_within_reasons_make_one_sentence() -> None:
    stop = Why.NEEDED_SIGKILL(stop=TIMED_OUT, seconds="2")
    noted = Why.NOTED(
        words=stop, notes=(Why.DISK_NEARLY_FULL(), Why.SURVIVED(processes="sudo (pid 7)"))
    )

    assert str(noted) == (
        "timed out after 5 s; still running 2 s after SIGTERM, killed with SIGKILL "
        "(the disk is nearly full; could not be killed: sudo (pid 7))"
    )
    assert from_json(to_json(noted)) == noted


def test_jobs_own_words_are_no_reason() -> None:
    assert to_json("300 orders") == ""
    assert from_json(to_json(Why.NOTED(words="300 orders", notes=()))) is not None


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "timed out after 5 s",
        "{",
        "[]",
        "null",
        "7",
        "{}",
        '{"code": 7}',
        '{"code": []}',
        '{"code": "OF_ANOTHER_VERSION"}',
        '{"code": "TIMED_OUT"}',
        '{"code": "TIMED_OUT", "facts": []}',
        '{"code": "TIMED_OUT", "facts": null}',
        '{"code": "TIMED_OUT", "facts": {"minutes": 5}}',
        '{"code": "TIMED_OUT", "facts": {"seconds": 5, "more": 1}}',
        '{"code": "TIMED_OUT", "facts": {"seconds": null}}',
        '{"code": "TIMED_OUT", "facts": {"seconds": true}}',
        '{"code": "TIMED_OUT", "facts": {"seconds": {"code": "OF_ANOTHER_VERSION"}}}',
        '{"code": "TIMED_OUT", "facts": {"seconds": [["5"]]}}',
        '{"code": "TIMED_OUT", "facts": {"seconds": ' + "9" * 40 + "}}",
        '{"code": "TIMED_OUT", "facts": {"seconds": ' + "9" * 5_000 + "}}",
        '{"code": "__class__"}',
        '{"code": "KILLED"}' + " " * REASON_LIMIT,
        "[" * 4_000,
    ],
)
def test_what_this_version_does_not_know_is_no_reason(text: str | None) -> None:
    assert from_json(text) is None


def nested(depth: int) -> Reason:
    reason = TIMED_OUT
    for _ in range(depth):
        reason = Why.HUNG_AFTER_STOP(stop=reason)
    return reason


def test_reasons_are_within_each_other_to_a_depth_only() -> None:
    assert from_json(to_json(nested(DEPTH_LIMIT - 1))) == nested(DEPTH_LIMIT - 1)
    assert from_json(to_json(nested(DEPTH_LIMIT))) is None


def test_reason_that_is_too_long_is_left_to_its_text() -> None:
    assert to_json(Why.TIMED_OUT(seconds="5" * REASON_LIMIT)) == ""
    assert to_json(Why.NOT_TAKEN(fault="caf\udce9")) == ""


def test_facts_are_data_whatever_they_look_like() -> None:
    reason = Why.NOT_TAKEN(fault='%(fault)s %s {} "}\n\x00<b>')

    assert str(reason) == 'cannot accept it: %(fault)s %s {} "}\n\x00<b>'
    assert from_json(to_json(reason)) == reason


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=9,
)


@given(st.sampled_from([code.name for code in Why]) | st.text(max_size=9), json)
def test_reading_never_fails(code: str, facts: Any) -> None:
    reason = from_json(msgspec.json.encode({"code": code, "facts": facts}).decode())

    assert reason is None or isinstance(str(reason), str)


@given(st.text())
def test_reading_any_text_never_fails(text: str) -> None:
    from_json(text)
