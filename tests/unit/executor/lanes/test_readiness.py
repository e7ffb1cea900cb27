from warren.executor.lanes.readiness import ASK_SECONDS, CLOCK_SECONDS, CONTACT_SECONDS, Contact

T = 100.0
LATE = T + CONTACT_SECONDS + 0.1


def lost_contact() -> Contact:
    contact = Contact(T)
    assert not contact.is_held(LATE)
    return contact


def test_contact_is_held_for_ten_seconds_after_a_confirmed_heartbeat() -> None:
    contact = Contact(T)

    assert contact.is_held(T + CONTACT_SECONDS)
    assert not contact.is_held(LATE)


def test_confirmed_heartbeats_keep_contact() -> None:
    contact = Contact(T)
    for second in range(0, 100, 5):
        contact.confirm(T + second, T + second, [])

    assert contact.is_held(T + 104)


def test_regained_contact_is_held_at_once_when_nothing_waits() -> None:
    contact = lost_contact()

    contact.confirm(LATE, LATE, [])

    assert contact.is_held(LATE)


def test_regained_contact_asks_about_what_waits_before_it_is_held() -> None:
    contact = lost_contact()

    contact.confirm(LATE, LATE, [3, 1])

    assert not contact.is_held(LATE)
    assert contact.question(LATE) == (1, 3)
    assert contact.answer([1, 3]) == {1, 3}
    assert contact.is_held(LATE)


def test_question_is_repeated_every_two_seconds() -> None:
    contact = lost_contact()
    contact.confirm(LATE, LATE, [1])
    contact.question(LATE)

    assert contact.question(LATE + ASK_SECONDS - 0.1) == ()
    assert contact.question(LATE + ASK_SECONDS) == (1,)


def test_answer_about_some_leaves_the_others_in_question() -> None:
    contact = lost_contact()
    contact.confirm(LATE, LATE, [1, 2, 3])

    assert contact.answer([2, 99]) == {2}

    assert not contact.is_held(LATE)
    assert contact.question(LATE) == (1, 3)


def test_heartbeat_that_was_sent_long_ago_proves_nothing_about_now() -> None:
    contact = lost_contact()

    contact.confirm(T + 1, LATE + 5, [1])

    assert not contact.is_held(LATE + 5)
    assert contact.question(LATE + 5) == ()


def test_frozen_process_notices_by_its_first_confirmed_heartbeat_that_it_was_away() -> None:
    contact = Contact(T)

    contact.confirm(T + 90, T + 90, [7])

    assert not contact.is_held(T + 90)
    assert contact.question(T + 90) == (7,)


def test_contact_lost_while_asking_asks_again_about_all_that_waits_then() -> None:
    contact = lost_contact()
    contact.confirm(LATE, LATE, [1])
    again = LATE + CONTACT_SECONDS + 1
    assert not contact.is_held(again)
    assert contact.question(again) == ()

    contact.confirm(again, again, [1, 2])

    assert contact.question(again) == (1, 2)


def test_run_that_ended_while_it_waited_is_not_asked_about() -> None:
    contact = lost_contact()
    contact.confirm(LATE, LATE, [1, 2])

    contact.forget(1)
    assert contact.question(LATE) == (2,)
    contact.forget(2)

    assert contact.is_held(LATE)


def test_late_answer_in_good_times_changes_nothing() -> None:
    contact = Contact(T)

    assert contact.answer([1, 2]) == set()
    assert contact.is_held(T)


def test_run_routed_before_contact_was_regained_is_asked_about_when_it_comes_after() -> None:
    contact = lost_contact()
    contact.confirm(LATE, LATE, [])

    contact.arrive(7, routed_at=T, now=LATE + 1)

    assert not contact.is_held(LATE + 1)
    assert contact.question(LATE + 1) == (7,)
    assert contact.answer([7]) == {7}
    assert contact.is_held(LATE + 1)


def test_run_that_comes_while_others_are_asked_about_is_asked_about_at_once() -> None:
    contact = lost_contact()
    contact.confirm(LATE, LATE, [1])
    assert contact.question(LATE) == (1,)

    contact.arrive(7, routed_at=T, now=LATE)

    assert contact.question(LATE) == (1, 7)


def test_run_routed_after_contact_was_regained_starts_unasked() -> None:
    contact = lost_contact()
    contact.confirm(LATE, LATE, [])

    contact.arrive(7, routed_at=LATE + CLOCK_SECONDS + 0.1, now=LATE + CLOCK_SECONDS + 0.2)

    assert contact.is_held(LATE + CLOCK_SECONDS + 0.2)


def test_run_that_comes_first_after_a_freeze_waits_like_the_others() -> None:
    contact = Contact(T)

    contact.arrive(7, routed_at=T, now=LATE)
    contact.confirm(LATE, LATE, [7])

    assert not contact.is_held(LATE)
    assert contact.question(LATE) == (7,)


def test_contact_that_was_never_lost_doubts_no_run() -> None:
    contact = Contact(T)

    contact.arrive(7, routed_at=T - 1_000, now=T + 1)

    assert contact.is_held(T + 1)


def test_boot_that_comes_back_asks_about_what_was_routed_before() -> None:
    contact = Contact(T, is_back=True)

    contact.arrive(1, T - 1, T + 1)
    held = contact.is_held(T + 1)
    asked = contact.question(T + 1)
    contact.answer(asked)

    assert (held, asked) == (False, (1,))
    assert contact.is_held(T + 2)
