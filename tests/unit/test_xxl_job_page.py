"""docs/xxl-job.md: every line names a test that exists."""

from tests.support import documented_tests

PAGE = (documented_tests.ROOT / "docs/xxl-job.md").read_text()


def test_every_line_names_a_test() -> None:
    assert len(list(documented_tests.table_lines(PAGE))) > 150
    assert documented_tests.unproven(PAGE) == []


def test_every_test_that_is_named_exists() -> None:
    assert len(documented_tests.named(PAGE)) > 140
    assert documented_tests.gone(PAGE) == []


def test_no_line_has_more_or_fewer_cells_than_its_head() -> None:
    assert documented_tests.uneven(PAGE) == []
