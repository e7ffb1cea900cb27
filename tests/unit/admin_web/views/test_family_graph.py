"""Where the boxes of a family stand."""

from admin_web.views.family_graph import BOX_WIDTH, MOST, draw


def test_a_job_alone_has_no_picture() -> None:
    assert draw((1, "reports/alone"), [], []) is None


def test_parents_stand_to_the_left_and_children_to_the_right() -> None:
    picture = draw((1, "a/job"), [(2, "a/parent")], [(3, "a/x"), (4, "a/y")])

    assert picture is not None
    assert picture.parents[0].x < picture.job.x < picture.children[0].x
    assert len(picture.arrows) == 3
    assert picture.children[-1].x + BOX_WIDTH <= picture.width
    assert len({box.y for box in picture.children}) == 2


def test_boxes_stay_within_the_picture() -> None:
    picture = draw((1, "a/job"), [], [(number, f"a/{number}") for number in range(2, 9)])

    assert picture is not None
    assert all(0 <= box.y <= picture.height - box.height for box in picture.children)


def test_too_many_are_counted() -> None:
    picture = draw((1, "a/job"), [(number, f"a/{number}") for number in range(2, 42)], [])

    assert picture is not None
    assert len(picture.parents) == MOST
    assert (picture.parents[-1].job_id, picture.parents[-1].name) == (0, "+ 29")


def test_a_long_name_shows_its_end() -> None:
    picture = draw((1, "reports/" + "x" * 60 + "-end"), [(2, "b")], [])

    assert picture is not None
    assert picture.job.short_name.startswith("…")
    assert picture.job.short_name.endswith("-end")
