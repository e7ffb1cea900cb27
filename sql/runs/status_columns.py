"""The columns of a run that change together whenever it enters a status."""

from collections.abc import Mapping
from typing import Any

from warren.sql.run_status import CODES, RunStatus

#: The status itself, and XXL-JOB's codes of it.
ENTERED: Mapping[RunStatus, Mapping[str, Any]] = {
    status: {"status": status.value, "trigger_code": trigger_code, "handle_code": handle_code}
    for status, (trigger_code, handle_code) in CODES.items()
}
