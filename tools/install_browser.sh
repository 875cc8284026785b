#!/usr/bin/env bash
# Make sure of a Chromium for the tests of pages: the one that is there, or Debian's.
set -euo pipefail
for name in chromium chromium-browser google-chrome; do
  if command -v "$name" >/dev/null; then exit 0; fi
done
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
  echo "browser: no Chromium found: install it with your system's packages (as root on Debian: apt-get install chromium)." >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq chromium fonts-dejavu-core >/dev/null
echo "browser: $(chromium --version)"
