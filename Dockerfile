# The image of the node daemon: `gpushare node`, with what requirements/runtime.txt locks.
#
#   docker build -t gpushare:0.1.0 .
#   docker build --secret id=pip.conf,src=pip.conf -t gpushare:0.1.0 .    # a package index of your own
#   make image                                                          # no Docker, no image registry
#
# BASE is any image with Python 3.11 or later; BUILD_BASE the same, with or without a
# C compiler. How packages are reached is lent to the build and never stays in the image.
ARG BASE=python:3.11-slim-bookworm
ARG BUILD_BASE=${BASE}

FROM ${BUILD_BASE} AS build
WORKDIR /src
ENV PYTHONDONTWRITEBYTECODE=1
COPY scripts/system-packages scripts/
RUN scripts/system-packages python3 && python3 -m venv /opt/build && python3 -m venv --without-pip /opt/gpushare
# Of the development lock, what a wheel is built with.
COPY requirements requirements
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    --mount=type=secret,id=certificates,target=/run/secrets/certificates.pem \
    awk '/^[a-z]/ { keep = /^(hatchling|packaging|pathspec|pluggy|tomlkit|trove-classifiers)==/ } keep' \
      requirements/dev.txt > /opt/build/requirements.txt && \
    /opt/build/bin/pip install --no-cache-dir --disable-pip-version-check --only-binary :all: \
      --require-hashes -r /opt/build/requirements.txt && \
    /opt/build/bin/pip --python /opt/gpushare/bin/python install --no-cache-dir --no-compile \
      --disable-pip-version-check --only-binary :all: --require-hashes -r requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY gpushare_plugin gpushare_plugin
# The simulated GPUs' library stands beside its sources, as after `make setup`. Compiled
# modules go by the hash that they were made from: an image's file times say little. The
# API client for laptops is the largest package, and the daemon never imports it.
RUN /opt/build/bin/hatchling build --target wheel && \
    /opt/build/bin/pip --python /opt/gpushare/bin/python install --no-cache-dir --no-compile \
      --disable-pip-version-check --no-index --no-deps dist/*.whl && \
    /opt/gpushare/bin/python -I -c 'from pathlib import Path; \
      from gpushare_plugin.sim.nvml_stub import building as stub; \
      stub.compile_library(Path(stub.__file__).with_name(stub.LIBRARY_NAME))' && \
    /opt/gpushare/bin/python -m compileall -q --invalidation-mode unchecked-hash -x /kubernetes/ /opt/gpushare/lib

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="gpushare" \
      org.opencontainers.image.description="Share GPUs by memory on Kubernetes: the node's device plugin daemon" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/gpushare /opt/gpushare
ENV PATH=/opt/gpushare/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=utility
EXPOSE 9435
ENTRYPOINT ["gpushare"]
CMD ["node"]
