"""Whether traces are wanted, by OpenTelemetry's own standard variables."""

import os
from collections.abc import Mapping

#: One of these must be set.
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_NAME, _SWITCH = "OTEL_SERVICE_NAME", "OTEL_SDK_DISABLED"


def traced_service(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the name of this program in traces; None = tracing is off."""
    is_off = environ.get(_SWITCH, "").lower() == "true"
    if is_off or not any(environ.get(name) for name in ENDPOINTS):
        return None
    return environ.get(_NAME) or "warren"
