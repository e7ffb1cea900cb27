"""Whether somebody wants traces: the variables are OpenTelemetry's own, for all programs alike."""

import os
from collections.abc import Mapping

#: One of these has to be set.
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_NAME, _SWITCH = "OTEL_SERVICE_NAME", "OTEL_SDK_DISABLED"


def traced_service(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return what this program is called in traces; None = nobody receives any."""
    is_off = environ.get(_SWITCH, "").lower() == "true"
    if is_off or not any(environ.get(name) for name in ENDPOINTS):
        return None
    return environ.get(_NAME) or "warren"
