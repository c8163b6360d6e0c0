#!/usr/bin/env bash
# Run every static check, say how each went, and show the output of those that failed. All run, even after a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=.venv/bin
outputs=$(mktemp -d)
trap 'rm -rf "$outputs"' EXIT
names=()

# All at once: the slowest of them, mypy, keeps one core busy for as long as the others need together.
check() { # name, command
  local output=$outputs/${#names[@]} start=$SECONDS
  names+=("$1")
  shift
  { "$@" >"$output" 2>&1 && echo 'ok    ' || echo FAILED; echo $((SECONDS - start)); } >"$output.end" &
}

check mypy $bin/mypy
check 'ruff check' $bin/ruff check --quiet .
check 'ruff format' $bin/ruff format --check .
check import-linter $bin/lint-imports --no-logo
check codespell $bin/codespell
check bandit $bin/bandit --quiet -ll -r src -c pyproject.toml
check 'generated code' $bin/python scripts/gen_proto.py --check
check 'generated docs' $bin/python scripts/gen_config_docs.py --check
check 'lock files' $bin/python scripts/check_locks.py
wait

failed=0
for at in "${!names[@]}"; do
  { read -r outcome; read -r took_s; } <"$outputs/$at.end"
  printf '  %-16s %-7s %3d s\n' "${names[at]}" "$outcome" "$took_s"
  if [ "$outcome" != ok ]; then
    sed 's/^/    /' "$outputs/$at"
    failed=$((failed + 1))
  fi
done
[ $failed = 0 ] || printf '%d check(s) failed\n' $failed
exit $((failed > 0))
