"""What columns of a job's row hold that the database itself must know."""

from enum import StrEnum

#: The kind of schedule of a job that is never due by itself.
NO_SCHEDULE = "NONE"


class DeliveryGuarantee(StrEnum):
    """Whether a run that may have started is started again when its executor is lost."""

    AT_MOST_ONCE = "AT_MOST_ONCE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"
