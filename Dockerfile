# One image for schedulers, executors, consoles and short commands: docker build --tag warren .
# Handlers are not in it: mount them, or put them on top in an image of your own (FROM warren).

# Python 3.11.16; another one: docker build --build-arg PYTHON=python:3.13-slim-bookworm@sha256:…
ARG PYTHON=python:3.11-slim-bookworm@sha256:0bee7276f83efd4a1ee05bbbf4281d95ed28e079220a9457f25a93e3f1e3c31b
# With PostgreSQL's driver: docker build --build-arg EXTRAS=server,postgresql,gateway
ARG EXTRAS=server,gateway

FROM node:24-bookworm-slim@sha256:a9f5f7c91a432850b2a8a7797adf5eadb6c733ceed61167806cee7ea7fbc29df AS scripts
# Node.js 24.19
WORKDIR /source
COPY admin_web warren/admin_web
COPY scripts/build-console scripts/
RUN scripts/build-console

FROM $PYTHON AS base

FROM base AS wheels
ARG EXTRAS
WORKDIR /source
COPY . .
COPY --from=scripts /source/warren/admin_web/static/bundle admin_web/static/bundle
RUN pip wheel --no-cache-dir --constraint constraints.txt --wheel-dir /wheels ".[$EXTRAS]"

FROM base
ARG EXTRAS
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/warren warren \
    && install --directory --owner warren --group warren --mode 0750 \
        /var/lib/warren/logs /var/lib/warren/state /var/lib/warren/.warren \
    && install --directory --owner warren --group warren --mode 0755 /var/lib/warren/definitions
COPY --from=wheels /wheels /wheels
RUN pip install --no-cache-dir --no-index --find-links /wheels "warren[$EXTRAS]" && rm -rf /wheels
COPY deploy/rabbitmq/make_definitions.py /usr/local/bin/
ENV PYTHONUNBUFFERED=1 \
    WARREN_LOG_DIR=/var/lib/warren/logs \
    WARREN_STATE_DIR=/var/lib/warren/state
USER warren
WORKDIR /var/lib/warren
# Nothing stands around warren: jobs could read the settings in its environment (docs/security.md).
ENTRYPOINT ["warren"]
CMD ["--help"]
