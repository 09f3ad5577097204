# kbhub in a container, for clients that start servers there: docs/how-to/install.md says how.
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src ./src
COPY schemas ./schemas
RUN python -m venv /opt/kbhub && /opt/kbhub/bin/pip install --no-cache-dir --constraint constraints.txt .

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
