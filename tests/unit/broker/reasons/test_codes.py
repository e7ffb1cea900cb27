"""Every reason has one sentence, and whoever gives it gives a fact for each place in it."""

import ast
from collections.abc import Iterator
from pathlib import Path

from warren.broker.messages.to_scheduler import HealthIssue
from warren.broker.reasons.codes import Why
from warren.broker.reasons.stored import from_json, places, to_json

ROOT = Path(__file__).parents[4]
PACKAGES = ("executor", "scheduler", "sql", "warren", "admin_web")


def calls() -> Iterator[tuple[str, str, frozenset[str | None]]]:
    """Give each call of a code in our packages: where, which code, and the names of its facts."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            source = path.read_text()
            if "warren.broker.reasons.codes" not in source:
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
    given = {code for _, code, _ in calls()} | {issue.why.name for issue in HealthIssue}

    assert sorted(set(Why.__members__) - given) == []


def test_each_sentence_is_made_of_its_facts_and_survives_its_way_through_json() -> None:
    reasons = {code: code(**{name: f"<{name}>" for name in places(code)}) for code in Why}

    assert {
        code: str(reason)
        for code, reason in reasons.items()
        if "%(" in str(reason) or not all(f"<{name}>" in str(reason) for name in places(code))
    } == {}
    assert [code for code, one in reasons.items() if from_json(to_json(one)) != one] == []
