# The demo, on a CPU: `docker compose -f deploy/compose.yaml up`, or from the repository's root
# `docker build -f deploy/demo.Dockerfile -t jaxobs-demo .`
FROM python:3.13-slim
WORKDIR /src
COPY requirements/jax-0.12.0.1.txt pyproject.toml README.md LICENSE ./
RUN pip install --no-cache-dir --require-hashes -r requirements/jax-0.12.0.1.txt
COPY jaxobs jaxobs
COPY plugins plugins
RUN pip install --no-cache-dir --no-deps --no-build-isolation . && useradd --uid 10001 --create-home jax
USER 10001
ENTRYPOINT ["jaxobs", "demo"]
