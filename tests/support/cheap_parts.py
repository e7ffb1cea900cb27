"""Makes two things cheap that the tests do ten thousand times: hashing passwords, compiling SQL."""

from collections import defaultdict
from typing import Any

import pytest
from argon2 import PasswordHasher
from sqlalchemy.engine import Engine
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache

from warren.scheduler.commands import passwords

#: All statements of all tests: a few thousand.
_STATEMENTS = 10_000
_REAL = passwords._HASHER._parameters


def hash_passwords_quickly(patch: pytest.MonkeyPatch) -> None:
    """Hash passwords in a fraction of a millisecond, instead of 25 ms."""
    quick = PasswordHasher(time_cost=1, memory_cost=256, parallelism=1)._parameters
    patch.setattr(passwords._HASHER, "_parameters", quick)


def hash_passwords_as_always(patch: pytest.MonkeyPatch) -> None:
    """Undo the above for a test of the hashes themselves."""
    patch.setattr(passwords._HASHER, "_parameters", _REAL)


def share_compiled_statements(patch: pytest.MonkeyPatch) -> None:
    """Compile each statement once for all engines of a kind, not once for the engine of each test.

    SQLAlchemy keeps statements by engine, and looks them up by dialect among others.
    """
    caches: defaultdict[type, LRUCache[Any, Any]] = defaultdict(lambda: LRUCache(_STATEMENTS))
    shared = property(lambda engine: caches[type(engine.dialect)], lambda _engine, _own: None)
    patch.setattr(Engine, "_compiled_cache", shared, raising=False)
    patch.setattr(DefaultDialect, "__hash__", lambda dialect: hash(type(dialect)))
    patch.setattr(DefaultDialect, "__eq__", lambda one, other: type(one) is type(other))
