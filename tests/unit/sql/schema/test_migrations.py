"""The migrations form one line, so that an upgrade has one way to go."""

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from warren.sql.schema.version import MIGRATIONS, newest_version


@pytest.fixture
def migrations() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return ScriptDirectory.from_config(config)


def test_there_is_one_newest_migration(migrations: ScriptDirectory) -> None:
    assert [head.partition("_")[0] for head in migrations.get_heads()] == [newest_version()]


def test_each_migration_follows_the_one_with_the_number_before(migrations: ScriptDirectory) -> None:
    steps = {step.revision: step.down_revision for step in migrations.walk_revisions()}

    revisions = sorted(steps)
    numbers = [revision.partition("_")[0] for revision in revisions]
    assert numbers == [f"{number:04}" for number in range(1, len(steps) + 1)]
    assert [steps[revision] for revision in revisions] == [None, *revisions[:-1]]
