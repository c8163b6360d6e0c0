#!/usr/bin/env bash
# Create .venv and install exactly what a lock file names, then Arauto itself, editable.
# Does nothing, and needs no network, when nothing changed since the last time.
#
# usage: scripts/setup.sh run|pipeline|dev     (each holds everything the one before does)
set -euo pipefail
cd "$(dirname "$0")/.."

kind=${1:?usage: scripts/setup.sh run|pipeline|dev}
lock=requirements/$kind.txt
venv=.venv
log=.cache/setup.log
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
# Packages of somebody's own would be taken for those of .venv.
unset PYTHONPATH PYTHONHOME

fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

is_recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
  if [ -n "${PYTHON:-}" ]; then
    is_recent "$PYTHON" || fail "PYTHON=$PYTHON is not a Python 3.11 or newer."
    echo "$PYTHON"
    return
  fi
  # Asked rather than believed: a version manager's shim may stand for a Python that is not there.
  for candidate in python3 python3.13 python3.12 python3.11 python3.14 python; do
    if is_recent "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  fail "no Python 3.11 or newer was found. Install one, or name it: make PYTHON=/path/to/python3 …"
}

create_venv() {
  local python
  python=$(find_python)
  printf 'Creating %s with %s\n' "$venv" "$("$python" --version)"
  rm -rf "$venv"
  "$python" -m venv "$venv" >"$log" 2>&1 && return
  # Debian and Ubuntu ship venv's bootstrap apart from Python.
  if ! "$python" -c 'import ensurepip' 2>/dev/null && scripts/apt_install.sh python3-venv; then
    rm -rf "$venv"
    "$python" -m venv "$venv" >"$log" 2>&1 && return
  fi
  cat "$log" >&2
  fail "'$python -m venv' does not work; on Debian and Ubuntu install python3-venv."
}

# On a terminal, one line that counts up; elsewhere, silence.
show_progress() {
  if [ ! -t 1 ]; then
    cat >/dev/null
    return
  fi
  awk -v total="$1" '
    /^Collecting / { printf "\r\033[K  %d/%d %s", ++n, total, $2; fflush() }
    /^Requirement already satisfied: / { printf "\r\033[K  %d/%d %s", ++n, total, $4; fflush() }
    /^Installing collected packages/ { printf "\r\033[K  unpacking"; fflush() }
    END { printf "\r\033[K" }'
}

# --no-deps: a lock names everything, so there is nothing to resolve. Left to itself, pip looks for the newest release
# of whatever is asked for with an extra, and stops on the day when that is no longer the one locked.
# --only-binary: what would have to be built is built by tools, and against libraries, that no lock names. Only Spark
# is not published otherwise; --no-build-isolation has it built by what requirements/build.txt brought.
install() { # lock file
  local count
  count=$(grep -c '^[a-zA-Z0-9].*==' "$1")
  printf 'Installing %d packages from %s (only when they change)\n' "$count" "$1"
  if ! "$venv/bin/python" -m pip install --no-deps --require-hashes --only-binary :all: --no-binary pyspark \
    --no-build-isolation -r "$1" 2>&1 | tee "$log" | show_progress "$count"; then
    tail -n 12 "$log" >&2
    fail "pip could not install $1; the whole log is in $log."
  fi
}

install_arauto() {
  # The demo adds Spark while its node runs; what runs must not be taken away for a moment.
  [ "$kind" != pipeline ] || ! "$venv/bin/python" -c 'import arauto' 2>/dev/null || return 0
  "$venv/bin/python" -m pip install --no-deps --no-build-isolation -e . >"$log" 2>&1 && return
  tail -n 12 "$log" >&2
  fail "pip could not install Arauto itself; the whole log is in $log."
}

# What a resolver would have said: whether anything that is installed asks for something the lock left out.
check() {
  "$venv/bin/python" -m pip check >"$log" 2>&1 && return
  tail -n 12 "$log" >&2
  fail "$lock and what is in $venv do not fit together. If you changed $venv by hand, 'make clean' starts anew."
}

fingerprint() { cat "requirements/$1.txt" pyproject.toml scripts/setup.sh | cksum; }
remember() { fingerprint "$1" >"$venv/.installed-$1"; }
is_installed() { [ "$(cat "$venv/.installed-$1" 2>/dev/null)" = "$(fingerprint "$1")" ]; }

mkdir -p .cache
# Started rather than looked for: the Python a venv was made with may be gone.
if ! "$venv/bin/python" -c '' 2>/dev/null; then
  create_venv
elif is_installed "$kind"; then
  exit 0
elif ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
  create_venv # somebody stopped the last set-up while pip was replacing itself
fi
install requirements/build.txt
install "$lock"
install_arauto
check
remember "$kind"
case $kind in
  dev) remember pipeline && remember run ;;
  pipeline) remember run ;;
esac
