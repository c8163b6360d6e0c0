#!/usr/bin/env bash
# Write the lock files anew from pyproject.toml: the newest versions it allows, with hashes, for every platform.
# Read the change before committing it. `scripts/lock.sh --no-upgrade` keeps what still fits.
set -euo pipefail
cd "$(dirname "$0")/.."

uv=$(command -v uv || echo .venv/bin/uv)
[ -x "$uv" ] || .venv/bin/python -m pip install --quiet uv

upgrade=(--upgrade)
[ "${1:-}" != --no-upgrade ] || upgrade=()
compile() { # group, further options
  local group=$1 out=$2
  shift 2
  "$uv" pip compile pyproject.toml --quiet --universal --generate-hashes --no-emit-index-url --no-header \
    --group "$group" "${upgrade[@]}" "$@" --output-file "$out"
}
# Spark is large, so it has a lock file of its own: a node starts without it.
compile build requirements/run.txt --extra postgres --extra redis
compile build requirements/pipeline.txt --all-extras --constraint requirements/run.txt
compile dev requirements/dev.txt --all-extras --constraint requirements/pipeline.txt
git diff --stat -- requirements
