"""Values of a job's columns that queries depend on."""

from enum import StrEnum

#: The schedule kind of a job that is only triggered by hand, by API or by a parent.
NO_SCHEDULE = "NONE"
#: The route of a job that names none, in an app that names none.
DEFAULT_ROUTE = "CONSISTENT_HASH"

#: How late a due time may still run as itself, for jobs that say nothing, in seconds.
LATE_LIMIT_SECONDS = 60


class DeliveryGuarantee(StrEnum):
    """Whether a run that may have started is started again when its executor is lost."""

    AT_MOST_ONCE = "AT_MOST_ONCE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"
