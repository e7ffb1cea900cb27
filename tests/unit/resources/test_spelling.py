"""Which known name somebody may have meant."""

from warren.resources.spelling import did_you_mean, nearest


def test_near_name_is_offered_and_a_far_one_is_not() -> None:
    assert did_you_mean("hanlder", ["handler", "param"]) == ", did you mean 'handler'?"
    assert did_you_mean("xyz", ["handler", "param"]) == ""


def test_the_nearest_of_several_is_taken() -> None:
    assert nearest("reportss", ["report", "reports"]) == "reports"
    assert nearest("xyz", ["report", "reports"]) == ""
