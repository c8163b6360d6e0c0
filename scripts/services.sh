#!/usr/bin/env bash
# Have the servers and tools that cannot come from PyPI. The tests start and stop their own servers, so
# only the programs are needed: what Debian starts by itself after an installation is stopped again.
# Where nothing may be installed, say what is missing and what that leaves unchecked. That is no failure, except in
# CI (CI=true), whose green must mean the same every day; ARAUTO_NO_APT=1 says that it is meant.
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
  want e2fsprogs 'the tests on a file system of their own are skipped' mkfs.ext4 /sbin/mkfs.ext4
  want strace 'the tests that watch system calls are skipped' strace
  want nginx-light 'the tests behind nginx are skipped' nginx /usr/sbin/nginx
  want haproxy 'the tests behind HAProxy are skipped' haproxy /usr/sbin/haproxy
  want curl 'the examples that use curl are skipped' curl
  [ -d $json_patch/node_modules ] || want npm 'the public JSON Patch suite is skipped' npm
  if [ "$1" = bench ]; then
    want mosquitto 'the benchmarks run without Mosquitto' mosquitto /usr/sbin/mosquitto
  fi
}

install_missing() { # purpose
  local wanted=("${missing[@]}") package
  scripts/apt_install.sh "${wanted[@]}" || true
  find_missing "$1"
  for package in "${wanted[@]}"; do
    # What was installed just now was not here before, so nobody else needs the service it started.
    [[ " ${missing[*]} " == *" $package "* ]] || stop_service "$package"
  done
}

stop_service() {
  if [ -d /run/systemd/system ]; then
    sudo_or_not systemctl disable --now "$1"
  elif [ -x "/etc/init.d/$1" ]; then
    sudo_or_not service "$1" stop
  fi
}

sudo_or_not() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi >/dev/null 2>&1 </dev/null || true
}

# The one suite that is published on npm; its data is read by Python, nothing of it runs.
fetch_json_patch_suite() {
  [ -d $json_patch/node_modules ] || ! have npm || (cd $json_patch && npm ci --silent --ignore-scripts </dev/null) || {
    printf 'MISSING json-patch-test-suite: npm could not install it; the public JSON Patch suite is skipped.\n' >&2
    incomplete=yes
  }
}

json_patch=tests/conformance/json_patch
purpose=${1:?usage: scripts/services.sh test|bench}
find_missing "$purpose"
[ ${#missing[@]} = 0 ] || install_missing "$purpose"
incomplete=
fetch_json_patch_suite
for i in "${!missing[@]}"; do
  printf 'MISSING %s: %s. (Debian, Ubuntu: apt-get install %s)\n' \
    "${missing[i]}" "${unchecked[i]}" "${missing[i]}" >&2
  incomplete=yes
done
[ -z "$incomplete" ] || [ "${CI:-}" != true ] || [ -n "${ARAUTO_NO_APT:-}" ]
