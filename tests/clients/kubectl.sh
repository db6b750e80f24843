#!/usr/bin/env bash
# kubectl.sh KUBECTL: runs that kubectl through its commands against the server of
# $KUBECONFIG. It needs the server's controllers but no nodes: pods stay pending.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=check.sh
source "$here/check.sh"

# A directory of our own: `kubectl` as asked for, a kubeconfig with our namespace.
work=$(mktemp -d)
background=()
clean_up() {
  ((${#background[@]} == 0)) || kill "${background[@]}" 2>/dev/null
  rm -rf "$work"
}
trap clean_up EXIT
mkdir "$work/bin"
ln -s "$(command -v "$1")" "$work/bin/kubectl"
cp "$KUBECONFIG" "$work/kubeconfig"
export PATH="$work/bin:$PATH" KUBECONFIG="$work/kubeconfig" KUBECTL_TEST_DIR="$work" KUBECACHEDIR="$work/cache"
cd "$work" || exit 1
ns=$(basename "$1" | tr . -)-$$
kubectl config set-context --current --namespace="$ns" >/dev/null

for topic in "$here"/kubectl/*.sh; do
  # shellcheck source=/dev/null
  source "$topic"
done
kubectl delete namespace "$ns" --wait=false >/dev/null 2>&1
finish
