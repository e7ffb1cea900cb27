"""What long-running commands have in common."""

import gc
import weakref

from warren.wiring.processes import exempt_loaded


class Loaded:
    """Something that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


def test_no_collection_visits_what_was_loaded_and_no_garbage_is_kept() -> None:
    loaded, garbage = Loaded(), weakref.ref(Loaded())

    exempt_loaded()

    assert garbage() is None
    assert all(visited is not loaded for visited in gc.get_objects())
