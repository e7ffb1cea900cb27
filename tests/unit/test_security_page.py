"""docs/security.md: whatever is said to have been tried names a test that exists."""

from tests.support import proofs

PAGE = (proofs.ROOT / "docs/security.md").read_text()


def test_every_line_names_a_test() -> None:
    assert len(list(proofs.table_lines(PAGE))) > 20
    assert proofs.unproven(PAGE) == []


def test_every_test_that_is_named_exists() -> None:
    assert len(proofs.named(PAGE)) > 20
    assert proofs.gone(PAGE) == []


def test_no_line_has_more_or_fewer_cells_than_its_head() -> None:
    assert proofs.uneven(PAGE) == []
