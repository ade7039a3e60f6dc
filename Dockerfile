# dptransfer for a machine without Python. Targets: core (rows and tables), images (with the default
# encoder) and serve (a server for one release).
#
#   docker build --target images --tag dptransfer .
#   docker run --rm -v "$PWD:/data" -v dptransfer-ledger:/ledger dptransfer fit photos/ --public pool/ --epsilon 1
#
# The ledger must outlive the container: keep the volume.
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim AS core
COPY --from=build /wheels /wheels
COPY constraints.txt /wheels/
RUN pip install --no-cache-dir --constraint /wheels/constraints.txt /wheels/*.whl \
 && useradd --create-home owner && mkdir /data /ledger && chown owner /data /ledger
USER owner
WORKDIR /data
ENV DPTRANSFER_LEDGER=/ledger/ledger.sqlite
VOLUME ["/data", "/ledger"]
ENTRYPOINT ["dptransfer"]
CMD ["--help"]

FROM core AS images
USER root
RUN wheel=$(ls /wheels/*.whl) && pip install --no-cache-dir --constraint /wheels/constraints.txt "$wheel[images]"
USER owner

FROM images AS serve
USER root
RUN wheel=$(ls /wheels/*.whl) && pip install --no-cache-dir --constraint /wheels/constraints.txt "$wheel[serve]" \
 && mkdir /model
USER owner
EXPOSE 8080
ENTRYPOINT ["dptransfer", "serve", "/model", "--host", "0.0.0.0", "--token-file", "/run/token"]
CMD []
