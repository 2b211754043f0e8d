# BASE, the wheels of this folder, and `strip`: what images are built from where no registry of
# Python packages can be reached (`make wheels`). It is no part of any image.
#   docker build --network host -t bookie-operator/wheels:dev -f e2e/images/wheels.Dockerfile wheels
ARG BASE=python:3.11-slim
FROM ${BASE}
RUN apt-get update -qq && apt-get install -qq --no-install-recommends binutils >/dev/null && \
    rm -rf /var/lib/apt/lists/*
COPY . /wheels/
