# A torque server. In this folder:
#
#     docker build -t idyn .
#     docker run --ulimit rtprio=51 --ulimit memlock=-1 -v /run/idyn:/run/idyn idyn
#
# SERVER: a server configuration; EXTRAS: see docs/how-to/install.md.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim-bookworm AS build
ARG EXTRAS=metrics
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends binutils gcc libc6-dev libgomp1 && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN python -m venv /opt/idyn && /opt/idyn/bin/pip install --no-cache-dir ".[${EXTRAS}]"
RUN python deployment/slim.py /opt/idyn

FROM python:${PYTHON}-slim-bookworm
ARG SERVER=quadruped
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/idyn /opt/idyn
RUN useradd --uid 1000 --create-home idyn && install -d -o 1000 -m 0700 /run/idyn
# IDYN_ENDPOINT: the address that the health check asks, if `serve` gets --endpoint
ENV PATH=/opt/idyn/bin:$PATH \
    XDG_RUNTIME_DIR=/run \
    IDYN_SERVER=${SERVER} \
    IDYN_ENDPOINT=
USER 1000
HEALTHCHECK --interval=60s --timeout=20s --start-period=60s \
    CMD ["sh", "-c", "exec idyn top --once ${IDYN_ENDPOINT}"]
CMD ["sh", "-c", "exec idyn serve ${IDYN_SERVER}"]
