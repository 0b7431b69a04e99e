# `hotline` in an image, without torch: it analyses traces that were captured elsewhere.
#
#   docker build --tag hotline .
#   docker run --rm --user "$(id -u):$(id -g)" --volume "$PWD:/traces" hotline report trace.json.gz
FROM python:3.11-slim
COPY pyproject.toml README.md LICENSE constraints.txt /src/
COPY hotline_analysis /src/hotline_analysis
COPY queries /src/queries
RUN pip install --no-cache-dir --constraint /src/constraints.txt "/src[remote]"
WORKDIR /traces
USER nobody
ENTRYPOINT ["hotline"]
