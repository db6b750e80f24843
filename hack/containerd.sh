#!/usr/bin/env bash
# Fetches containerd and runc as Debian packages it, without installing anything system-wide.
#
#   hack/containerd.sh            into ${SETPOINT_TOOLS:-$HOME/.cache/setpoint/tools}/containerd
#
# The test of runtimes behind CRI (crates/testkit/tests/cri.rs) runs them from there, with root, state and socket of its
# own. Needs apt-get and dpkg-deb, but not root. The packages' libraries have to be on the machine already: on one that
# lacks them the last step says so.
set -euo pipefail

tools=${SETPOINT_TOOLS:-$HOME/.cache/setpoint/tools}/containerd
packages=(containerd runc)
mkdir -p "$tools/packages"
cd "$tools/packages"
apt-get download "${packages[@]}"
for package in ./*.deb; do
  dpkg-deb --extract "$package" "$tools"
done
cd "$tools"
rm -rf packages
"$tools/usr/bin/containerd" --version
"$tools/usr/sbin/runc" --version | head -n 1
echo "$tools"
