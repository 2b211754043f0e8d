# A stand-in for python:3.11-slim where no registry can be reached: a Debian that is there already with
# its updates, Python 3.11, venv and tini. JAVA names a further package, for the repair image's base.
#   docker build --network host -t bookie-operator/base:dev - <e2e/images/base.Dockerfile
ARG DEBIAN=debian:bookworm-slim
FROM ${DEBIAN}
ARG JAVA=
ENV LANG=C.UTF-8
RUN mkdir -p /usr/share/man/man1 && apt-get update -qq && \
    DEBIAN_FRONTEND=noninteractive apt-get upgrade -qq >/dev/null && \
    DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends \
        python3 python3-venv tini ${JAVA} >/dev/null && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/* /var/log/*
CMD ["python3"]
