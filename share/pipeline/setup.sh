#!/bin/sh
# setup.sh -- install what building and testing pipegpt needs, on Debian and its kin.
# Installs only what is missing; without root and without sudo it prints the line to type.
packages="gcc make pkg-config zlib1g-dev libxxhash-dev libcurl4-openssl-dev libzstd-dev libsnappy-dev jq libmpich-dev mpich"

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "setup: this is not Debian or one of its kin; README.md lists what to install" >&2
    exit 0
fi
missing=
for p in $packages; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q '^install ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || { echo "setup: nothing is missing"; exit 0; }

install="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" -eq 0 ]; then sudo=
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then sudo=sudo
else
    echo "setup: missing:$missing" >&2
    echo "setup: as root, type: apt-get update && $install" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# The package lists may be missing or old: try without, then with fresh ones.
$sudo $install || { $sudo apt-get update && $sudo $install; }
