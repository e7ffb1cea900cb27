"""Where the boxes of a family stand."""

from warren.admin_web.pages.job_pages import BOX_WIDTH, MAX_BOXES, FamilyGraph, draw, generations
from warren.sql.listings.run_relations import Family


def picture(*links: tuple[int, int], name: str = "a/job") -> FamilyGraph:
    """Return the drawing of job 1 among these links of parent and child."""
    names = {job_id: f"a/{job_id:02}" for link in links for job_id in link} | {1: name}
    found = draw(1, Family(names=names, links=list(links), is_cut=False))
    assert found is not None
    return found


def test_a_job_alone_has_no_picture() -> None:
    assert draw(1, Family(names={1: "reports/alone"}, links=[], is_cut=False)) is None


def test_parents_stand_to_the_left_and_children_to_the_right() -> None:
    found = picture((2, 1), (1, 3), (1, 4))

    x = {box.job_id: box.x for box in found.relatives}
    assert x[2] < found.job.x < x[3] == x[4]
    assert len(found.arrows) == 3
    assert x[3] + BOX_WIDTH <= found.width
    assert len({box.y for box in found.relatives if box.job_id in (3, 4)}) == 2


def test_grandchildren_stand_behind_all_of_their_parents() -> None:
    found = picture((1, 2), (2, 3), (1, 3), (3, 4), (5, 6), (6, 1), (5, 1))

    x = {box.job_id: box.x for box in found.relatives}
    assert x[5] < x[6] < found.job.x < x[2] < x[3] < x[4]
    assert len(found.arrows) == 7


def test_a_circle_ends() -> None:
    assert generations(1, [(1, 2), (2, 3), (3, 2), (3, 1)]).keys() == {1, 2, 3}
    assert picture((1, 2), (2, 1)).width > 0


def test_a_picture_fits_as_long_as_its_texts_can_be_read() -> None:
    assert picture((1, 2), (2, 3), (3, 4)).fits
    assert not picture((1, 2), (2, 3), (3, 4), (4, 5)).fits


def test_boxes_stay_within_the_picture() -> None:
    found = picture(*[(1, number) for number in range(2, 9)])

    assert all(0 <= box.y <= found.height - box.height for box in found.relatives)


def test_too_many_are_counted() -> None:
    found = picture(*[(number, 1) for number in range(2, 42)])

    assert len(found.relatives) == MAX_BOXES
    assert (found.relatives[-1].job_id, found.relatives[-1].name) == (0, "+ 29")


def test_a_long_name_shows_its_end() -> None:
    found = picture((2, 1), name="reports/" + "x" * 60 + "-end")

    assert found.job.short_name.startswith("…")
    assert found.job.short_name.endswith("-end")
