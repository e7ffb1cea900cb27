"""A job as it was, from what the audit log keeps."""

import pytest

from warren.scheduler.jobs.records import MAX_VALUE_LENGTH, cut, past_spec


@pytest.mark.parametrize(
    ("param", "missing"),
    [
        ("x" * MAX_VALUE_LENGTH, ()),
        ("x" * (MAX_VALUE_LENGTH - 1) + "…", ()),
        ("x" * 9_000, ("param",)),
    ],
    ids=["long", "of its own mark", "cut"],
)
def test_only_a_value_that_the_audit_log_has_cut_is_missing(
    param: str, missing: tuple[str, ...]
) -> None:
    found = past_spec({"job_name": "nightly", "executor_param": cut(param)}, app="reports")

    assert found.missing == missing
    assert found.spec.param == ("" if missing else param)
