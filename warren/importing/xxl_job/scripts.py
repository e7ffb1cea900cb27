"""GLUE becomes a script with its earlier versions."""

from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from warren.broker.reasons.codes import Why
from warren.broker.reasons.reason import Reason
from warren.importing.xxl_job.source_rows import Row
from warren.scheduler.imports.items import ImportedVersion
from warren.scheduler.jobs.script_cache import language_of
from warren.scheduler.jobs.script_source import REMARK_LENGTH, check_source, normal_source
from warren.scheduler.problems import Problem
from warren.sql.jobs.script_versions import KEPT_VERSIONS

HANDLER = "BEAN"
#: Types that run with another interpreter here, or in another way.
PYTHON2, GROOVY = "GLUE_PYTHON2", "GLUE_GROOVY"


@dataclass(frozen=True, slots=True)
class Glue:
    """A job's script; `language` "" = none. A `problem` stops the job."""

    language: str = ""
    source: str = ""
    remark: str = ""
    versions: tuple[ImportedVersion, ...] = ()
    problem: Reason | None = None


def read_glue(row: Row, history: Sequence[Row], zone: ZoneInfo) -> Glue:
    """Return the script of a job; `history` are its rows of the GLUE history, oldest first."""
    kind = row.text("glue_type").strip() or HANDLER
    if kind == HANDLER:
        return Glue()
    language = language_of("GLUE_PYTHON" if kind == PYTHON2 else kind)
    if not language:
        return Glue(problem=Why.SCRIPT_TYPE_UNKNOWN())
    source = normal_source(language, row.text("glue_source"))
    try:
        check_source(source)
    except Problem as fault:
        return Glue(problem=Why.SCRIPT_LEFT_OUT(why=str(fault)))
    problem = Why.PYTHON_2() if kind == PYTHON2 else None
    remark = row.line("glue_remark")[:REMARK_LENGTH].strip()
    return Glue(language, source, remark, _versions(language, source, history, zone), problem)


def _versions(
    language: str, current: str, history: Sequence[Row], zone: ZoneInfo
) -> tuple[ImportedVersion, ...]:
    """Return the versions before the current one, oldest first."""
    found = []
    for row in history:
        source = normal_source(language, row.text("glue_source"))
        try:
            check_source(source)
        except Problem:
            continue
        remark = row.line("glue_remark")[:REMARK_LENGTH].strip()
        found.append(
            ImportedVersion(
                language=language_of(row.text("glue_type").strip()) or language,
                source=source,
                remark=remark,
                saved_at=row.utc("add_time", zone),
            )
        )
    if found and found[-1].source == current:
        found.pop()
    return tuple(found[-(KEPT_VERSIONS - 1) :])
