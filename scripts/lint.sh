#!/usr/bin/env bash
# Run every static check, say how each went, and show the output of those that failed. All run, even after a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=.venv/bin
output=$(mktemp)
trap 'rm -f "$output"' EXIT
failed=0

check() { # name, command
  local name=$1 start=$SECONDS
  shift
  printf '  %-16s ' "$name"
  if "$@" >"$output" 2>&1; then
    printf 'ok      %3d s\n' $((SECONDS - start))
  else
    printf 'FAILED  %3d s\n' $((SECONDS - start))
    sed 's/^/    /' "$output"
    failed=$((failed + 1))
  fi
}

check 'ruff check' $bin/ruff check --quiet .
check 'ruff format' $bin/ruff format --check .
check mypy $bin/mypy
check import-linter $bin/lint-imports --no-logo
check codespell $bin/codespell
check bandit $bin/bandit --quiet -ll -r src -c pyproject.toml
check 'generated code' $bin/python scripts/gen_proto.py --check
check 'generated docs' $bin/python scripts/gen_config_docs.py --check
check 'lock files' $bin/python scripts/check_locks.py

[ $failed = 0 ] || printf '%d check(s) failed\n' $failed
exit $((failed > 0))
