"""Reports failed runs to Sentry: `WARREN_HOOKS=warren.contrib.sentry`, with `sentry-sdk` installed.

It reads `SENTRY_DSN` and Sentry's other variables, unless the handlers have called
`sentry_sdk.init`. Each run has a scope of its own, with the run as tags. Runs that were skipped,
and those that ask to be tried again later, are not reported.
"""

from collections.abc import Generator

import sentry_sdk

from warren.executor.handlers.context import JobContext, RetryLater
from warren.executor.handlers.hooks import RunEnd, around_run

#: How many seconds to wait until an event is sent, as the process may end after its run.
FLUSH_SECONDS = 2.0


@around_run
def report_to_sentry(context: JobContext) -> Generator[None, RunEnd, None]:
    """Send the error of the run to Sentry if it failed."""
    if not sentry_sdk.is_initialized():
        sentry_sdk.init()  # in the job process: the SDK starts threads
    with sentry_sdk.isolation_scope() as scope:
        scope.set_tag("warren.job_id", context.job_id)
        scope.set_tag("warren.run_id", context.run_id)
        scope.set_tag("warren.attempt", context.attempt)
        scope.set_tag("warren.kind", context.kind)
        end = yield
        if end.outcome == "FAILED" and not isinstance(end.error, RetryLater):
            if end.error is None:
                sentry_sdk.capture_message(end.message, level="error")
            else:
                sentry_sdk.capture_exception(end.error)
            sentry_sdk.flush(timeout=FLUSH_SECONDS)
