# The one image: dispatcher, Ray node and agent differ by command alone, and Ray wants the same Python everywhere.
#   docker build -t global-dispatcher:VERSION . # the version in pyproject.toml, for which the charts ask
# The base is pinned by digest, since a tag means another image tomorrow; another one: --build-arg BASE=...@sha256:...
ARG BASE=python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7

FROM ${BASE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/global-dispatcher
WORKDIR /src
COPY requirements-image.lock requirements-build.lock ./
RUN /opt/global-dispatcher/bin/python -m pip install --require-hashes --only-binary=:all: -r requirements-image.lock
COPY dispatcher ./dispatcher
COPY agents ./agents
COPY shared ./shared
COPY configs ./configs
COPY pyproject.toml LICENSE README.md ./
# The build tool stays out of the image, in a virtual environment that is left behind.
RUN python -m venv /tmp/tool \
 && /tmp/tool/bin/python -m pip install --require-hashes --only-binary=:all: -r requirements-build.lock \
 && /tmp/tool/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir /tmp/wheel . \
 && /opt/global-dispatcher/bin/python -m pip install --no-deps /tmp/wheel/*.whl \
 && /opt/global-dispatcher/bin/python -m compileall -q /opt/global-dispatcher/lib \
 && /opt/global-dispatcher/bin/python -m pip uninstall --yes pip setuptools

FROM ${BASE}
LABEL org.opencontainers.image.title="Global Dispatcher" \
      org.opencontainers.image.licenses="Apache-2.0"
# A name for the user, since Ray asks for it.
RUN groupadd --gid 10001 dispatcher \
 && useradd --uid 10001 --gid 10001 --home-dir /tmp --no-create-home --shell /usr/sbin/nologin dispatcher
COPY --from=build /opt/global-dispatcher /opt/global-dispatcher
# Images are replaced one after the other, and a later one may have a later patch of Python, which Ray else refuses.
ENV PATH=/opt/global-dispatcher/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    RAY_USAGE_STATS_ENABLED=0 \
    RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL=minor
WORKDIR /tmp
USER 10001:10001
ENTRYPOINT ["global-dispatcher"]
CMD ["--help"]
