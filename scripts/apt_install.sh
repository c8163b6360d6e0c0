#!/usr/bin/env bash
# Install Debian packages, if this machine lets us: apt-get is there, and we are root or sudo asks nothing.
# Fails otherwise, and if any of them could not be installed. ARAUTO_NO_APT=1 forbids it.
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
apt_get update || true # an old list may do
failed=()
for package in "$@"; do # one by one: a package that does not exist must not keep out the others
  apt_get install -y --no-install-recommends "$package" || failed+=("$package")
done
if [ ${#failed[@]} -gt 0 ]; then
  printf 'apt-get could not install %s; the whole log is in %s.\n' "${failed[*]}" "$log" >&2
  exit 1
fi
