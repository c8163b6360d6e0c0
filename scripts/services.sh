#!/usr/bin/env bash
# Have the servers and tools that cannot come from PyPI. The tests start and stop their own servers, so
# only the programs are needed: what Debian starts by itself after an installation is stopped again.
# Where nothing may be installed, say what is missing and what that leaves unchecked; that is no failure.
#
# usage: scripts/services.sh test|bench
set -euo pipefail
cd "$(dirname "$0")/.."

have() {
  local pattern
  for pattern in "$@"; do
    command -v "$pattern" >/dev/null && return 0
    compgen -G "$pattern" >/dev/null && return 0
  done
  return 1
}

missing=()   # Debian packages
unchecked=() # the sentence to say if they stay missing
want() { # package, consequence, programs (any of them will do)
  local package=$1 consequence=$2
  shift 2
  have "$@" && return
  missing+=("$package")
  unchecked+=("$consequence")
}

find_missing() {
  missing=() unchecked=()
  want postgresql 'the tests marked "postgres" are skipped' postgres '/usr/lib/postgresql/*/bin/postgres' \
    '/opt/homebrew/opt/postgresql*/bin/postgres'
  want redis-server 'the tests marked "redis" are skipped' redis-server valkey-server
  want strace 'the tests that watch system calls are skipped' strace
  if [ "$1" = bench ]; then
    want mosquitto 'the benchmarks run without Mosquitto' mosquitto /usr/sbin/mosquitto
  fi
}

stop_what_debian_started() { # packages; they were not here before, so nobody else needs their services
  local package
  for package in "$@"; do
    [ "$package" = strace ] && continue
    if [ -d /run/systemd/system ]; then
      sudo_or_not systemctl disable --now "$package"
    elif [ -x "/etc/init.d/$package" ]; then
      sudo_or_not service "$package" stop
    fi
  done
}

sudo_or_not() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi >/dev/null 2>&1 </dev/null || true
}

purpose=${1:?usage: scripts/services.sh test|bench}
find_missing "$purpose"
[ ${#missing[@]} = 0 ] && exit 0
if scripts/apt_install.sh "${missing[@]}"; then
  stop_what_debian_started "${missing[@]}"
  find_missing "$purpose"
fi
for i in "${!missing[@]}"; do
  printf 'MISSING %s: %s. (Debian, Ubuntu: apt-get install %s)\n' \
    "${missing[i]}" "${unchecked[i]}" "${missing[i]}" >&2
done
