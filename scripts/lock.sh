#!/usr/bin/env bash
# Write the lock files anew from pyproject.toml: the newest versions it allows, with hashes, for every platform.
# Read the change before committing it. `scripts/lock.sh --no-upgrade` keeps what still fits.
set -euo pipefail
cd "$(dirname "$0")/.."

upgrade=(--upgrade)
[ "${1:-}" != --no-upgrade ] || upgrade=()
compile() { # name of the lock file, what it is made from
  local out=requirements/$1.txt
  shift
  .venv/bin/uv pip compile "$@" --quiet --universal --generate-hashes --no-emit-index-url --no-header \
    "${upgrade[@]}" --output-file "$out"
}
# Each lock holds all of the one before. Spark is large, so it has one of its own: a node starts without it.
compile build --group build
compile run pyproject.toml --group build --extra postgres --extra redis --constraint requirements/build.txt
compile pipeline pyproject.toml --group build --all-extras --constraint requirements/run.txt
compile dev pyproject.toml --group dev --all-extras --constraint requirements/pipeline.txt
git diff --stat -- requirements
# Whether all of it can be had, without building anything but Spark, wherever Arauto is to run.
for python in $(grep -o 'Python :: 3\.[0-9]*' pyproject.toml | grep -o '3\..*'); do
  for machine in x86_64 aarch64; do
    printf 'Python %s on %s\n' "$python" "$machine"
    .venv/bin/uv pip install --quiet --dry-run --require-hashes --only-binary :all: --no-binary pyspark \
      --python-version "$python" --python-platform "$machine-manylinux_2_28" --target build/lock \
      --requirement requirements/dev.txt
  done
done
echo 'Now run make setup and make lint, and read what moved.'
