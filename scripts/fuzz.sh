#!/usr/bin/env bash
# Run every fuzz target for some seconds. What a run learns is kept under .cache/fuzz and used by the next;
# an input that breaks a target is left in .cache/fuzz/crashes and fails the run.
#
# usage: scripts/fuzz.sh SECONDS [TARGET…]      e.g. scripts/fuzz.sh 600 fuzz/fuzz_json.py
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:?usage: scripts/fuzz.sh SECONDS [TARGET…]}
shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(fuzz/fuzz_*.py)
python=.venv/bin/python

if ! $python -c 'import atheris' 2>/dev/null; then
  printf 'FUZZING SKIPPED: atheris is not available for %s.\n' "$($python --version)" >&2
  exit 0
fi

crashes=.cache/fuzz/crashes
mkdir -p $crashes

fuzz() { # target
  local name log learnt corpora
  name=$(basename "$1" .py)
  name=${name#fuzz_}
  learnt=.cache/fuzz/corpus/$name
  log=.cache/fuzz/$name.log
  mkdir -p "$learnt"
  corpora=("$learnt")
  [ ! -d "fuzz/corpus/$name" ] || corpora+=("fuzz/corpus/$name")
  # -timeout: one input may not keep the target busy; -rss_limit_mb: nor make it swallow memory.
  if $python "$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
    -artifact_prefix="$crashes/$name-" "${corpora[@]}" >"$log" 2>&1; then
    awk -v name="$name" '/number_of_executed_units/ { runs = $2 }
      END { printf "  %-16s ok      %d inputs\n", name, runs }' "$log"
  else
    printf '  %-16s FAILED\n%s\n' "$name" "$(tail -n 40 "$log" | sed 's/^/    /')"
    return 1
  fi
}
export -f fuzz
export python seconds crashes

# Two at a time: a target keeps one core busy.
if ! printf '%s\0' "${targets[@]}" | xargs -0 -n 1 -P 2 bash -c 'fuzz "$0"'; then
  printf 'Inputs that broke a target are in %s\n' $crashes
  exit 1
fi
