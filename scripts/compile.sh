#!/usr/bin/env bash
# Compile the hot modules with mypyc and install the result into build/fast.
# Works on a copy: compiled files beside the sources would hide later changes to them.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v cc >/dev/null; then
    echo "make fast needs a C compiler (cc); the pure Python modules do the same, slower" >&2
    exit 1
fi

rm -rf build/fast build/fast-src
mkdir -p build/fast-src
cp -r pyproject.toml README.md LICENSE src build/fast-src/
find build/fast-src -name '*.so' -delete
echo "compiling the hot modules (about a minute)"
HATCH_BUILD_HOOKS_ENABLE=1 .venv/bin/python -m pip wheel --quiet --no-deps --no-build-isolation \
    --wheel-dir build/fast-src/dist build/fast-src
.venv/bin/python -m pip install --quiet --no-deps --target build/fast build/fast-src/dist/arauto-*.whl
rm -rf build/fast-src
echo "compiled into build/fast; use it with PYTHONPATH=$PWD/build/fast"
