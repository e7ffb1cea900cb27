"""Points in time in answers."""

from warren.resources.instant import Instant, iso


def test_points_in_time_keep_their_milliseconds_up_to_the_last_one() -> None:
    assert iso(Instant.of(1_796_083_200_123)) == "2026-12-01T00:00:00.123+00:00"
    assert iso(Instant.of(253_402_300_799_999)) == "9999-12-31T23:59:59.999+00:00"


def test_what_is_out_of_range_becomes_the_nearest_point_in_time() -> None:
    assert iso(Instant.of(10**30)) == "9999-12-31T23:59:59.999+00:00"
    assert iso(Instant.of(-1)) == "1970-01-01T00:00:00.000+00:00"
