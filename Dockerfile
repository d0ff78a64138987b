# syntax=docker/dockerfile:1
# A server: docker build -t myxtts . (CPU), or with --build-arg EXTRAS=serve,cuda for a GPU.
FROM python:3.11-slim-bookworm

ARG EXTRAS=serve

RUN useradd --create-home --uid 10001 myxtts
WORKDIR /opt/myxtts
COPY requirements ./requirements
COPY pyproject.toml constraints.txt README.package.md LICENSE NOTICE.md MANIFEST.in ./
COPY myxtts ./myxtts
# By their hashes, as make does it; extras other than serve by their versions.
RUN python -m venv /opt/venv \
    && export PATH="/opt/venv/bin:$PATH" PIP_NO_CACHE_DIR=1 \
    && python -m pip install --require-hashes --requirement requirements/build.txt \
    && python -m pip install --require-hashes --no-build-isolation --requirement requirements/serve.txt \
    && python -m pip install --no-build-isolation --constraint constraints.txt ".[${EXTRAS}]"
# The base is served unless a run is mounted in its place. A named volume begins as a copy of it, in
# which voices can be saved.
RUN cp -r myxtts/weights/base /run-folder && chown -R 10001 /run-folder

USER 10001
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1
VOLUME /run-folder
EXPOSE 5002
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:5002/healthz', timeout=4)"]
# A token is needed: MYXTTS_TOKEN.
ENTRYPOINT ["myxtts", "serve", "--host", "0.0.0.0", "--port", "5002"]
CMD ["/run-folder"]
