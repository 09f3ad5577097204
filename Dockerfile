# kbhub in a container, for clients that start servers there: docs/how-to/install.md says how.
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY .ci/uv.txt .ci/uv.txt
COPY src ./src
COPY schemas ./schemas
RUN pip install --no-cache-dir -r .ci/uv.txt && python -m venv --without-pip /opt/kbhub
# uv verifies the hashes of what is installed (-c) and of what builds kbhub (-b).
RUN uv pip install --no-cache --compile-bytecode --python /opt/kbhub . -c constraints.txt -b constraints.txt

FROM python:3.13-slim
COPY --from=build /opt/kbhub /opt/kbhub
# The indexes and memories are the user's who runs the container; a volume takes its owner from the image.
RUN useradd --create-home --uid 1000 kbhub && mkdir /data /project && chown kbhub:kbhub /data
ENV PATH=/opt/kbhub/bin:$PATH KBHUB_CACHE_DIR=/data/cache KBHUB_DATA_DIR=/data/data
USER kbhub
WORKDIR /project
VOLUME /data
ENTRYPOINT ["kbhub"]
CMD ["serve"]
