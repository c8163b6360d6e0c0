#!/usr/bin/env bash
# Install Debian packages, if this machine lets us: apt-get is there, and we are root or sudo asks nothing.
# Fails otherwise. ARAUTO_NO_APT=1 forbids it.
#
# usage: scripts/apt_install.sh PACKAGE…
set -euo pipefail
cd "$(dirname "$0")/.."

[ -z "${ARAUTO_NO_APT:-}" ] || exit 1
command -v apt-get >/dev/null || exit 1
as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null && sudo -n true 2>/dev/null || exit 1
  as_root=(sudo -n)
fi

mkdir -p .cache
log=.cache/apt.log
apt_get() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 "$@" </dev/null >>"$log" 2>&1
}

printf 'Installing with apt-get: %s\n' "$*"
: >"$log"
if ! { apt_get update && apt_get install -y --no-install-recommends "$@"; }; then
  tail -n 10 "$log" >&2
  printf 'apt-get failed; the whole log is in %s.\n' "$log" >&2
  exit 1
fi
