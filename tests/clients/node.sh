#!/usr/bin/env bash
# node.sh SETPOINT KUBECTL...: runs each kubectl against a server of its own with a node: logs, commands, copies, ports,
# usage. As root on Linux; the pods use this machine's programs.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=check.sh
source "$here/check.sh"
setpoint=$1
shift
if ((EUID != 0)); then
  printf 'only root can run containers\n0 passed, 1 failed\n'
  exit 1
fi

work=$(mktemp -d)
server=''
clean_up() {
  if [[ -n $server ]]; then
    "${kubectls[0]}" delete pods --all --force >/dev/null 2>&1
    eventually_quiet
    kill "$server" 2>/dev/null
    wait "$server" 2>/dev/null
  fi
  rm -rf "$work"
}
# Until no sandbox is left: its shim would outlive the server.
eventually_quiet() {
  for ((i = 0; i < 100; i++)); do
    [[ -z $(ls -A "$work/data/runtime/sandboxes" 2>/dev/null) ]] && return
    sleep 0.1
  done
}
trap clean_up EXIT
kubectls=("$@")
export KUBECONFIG=$work/kubeconfig KUBECACHEDIR=$work/cache work
mkdir "$work/bin"
PATH=$work/bin:$PATH
# However full this disk is: that is not what is tested here.
"$setpoint" server --data-dir "$work/data" --listen 127.0.0.1:0 --kubeconfig "$KUBECONFIG" --node clients-node --eviction-hard "" \
  >"$work/server.log" 2>&1 &
server=$!
for ((i = 0; i < 300; i++)); do
  [[ -s $KUBECONFIG && $("${kubectls[0]}" get --raw /readyz 2>/dev/null) == ok ]] && break
  sleep 0.1
done

cat >"$work/pods.yaml" <<'YAML'
apiVersion: v1
kind: Pod
metadata: {name: shell}
spec:
  terminationGracePeriodSeconds: 0
  volumes: [{name: usr, hostPath: {path: /usr}}]
  initContainers:
  - {name: first, image: 'setpoint.local/box:v1', args: [echo, prepared]}
  containers:
  - name: main
    image: setpoint.local/box:v1
    command: [/usr/bin/sh, -c, 'echo one; echo two; echo three; sleep 100000']
    env: [{name: PATH, value: /usr/bin}]
    volumeMounts: [{name: usr, mountPath: /usr, readOnly: true}]
  - {name: web, image: 'setpoint.local/box:v1', args: [serve, '8080']}
---
apiVersion: v1
kind: Pod
metadata: {name: restarts}
spec:
  terminationGracePeriodSeconds: 0
  volumes: [{name: usr, hostPath: {path: /usr}}]
  containers:
  - name: main
    image: setpoint.local/box:v1
    command: [/usr/bin/sh, -c, 'echo this life; exit 1']
    volumeMounts: [{name: usr, mountPath: /usr, readOnly: true}]
---
apiVersion: v1
kind: Pod
metadata: {name: waits}
spec:
  containers: [{name: main, image: 'setpoint.local/none:v1', imagePullPolicy: Never}]
YAML

# A page of the pod through port-forward.
from_port() {
  local address='' forward
  kubectl port-forward pod/shell :8080 --address 127.0.0.1 >"$work/forward" 2>&1 &
  forward=$!
  for ((i = 0; i < 100; i++)); do
    address=$(sed -n 's/^Forwarding from \([0-9.:]*\) .*/\1/p' "$work/forward")
    [[ -n $address ]] && break
    sleep 0.1
  done
  exec 3<>"/dev/tcp/${address%:*}/${address#*:}"
  printf 'GET / HTTP/1.0\r\n\r\n' >&3
  cat <&3
  kill "$forward"
}
copied() {
  head -c 1000000 /dev/urandom >"$work/there"
  kubectl cp -c main "$work/there" shell:/copy && kubectl cp -c main shell:/copy "$work/back" &&
    cmp "$work/there" "$work/back" && printf 'the same\n'
}
typed() { printf 'typed\n' | kubectl exec -i shell -c main -- cat; }
export -f from_port copied typed

for kubectl in "${kubectls[@]}"; do
  ln -sf "$(command -v "$kubectl")" "$work/bin/kubectl"
  version=$(basename "$kubectl")
  kubectl apply -f "$work/pods.yaml" >/dev/null
  check "$version: the pod is ready" condition kubectl wait --for=condition=Ready pod/shell --timeout=20s
  check "$version: logs" $'=one\ntwo\nthree' kubectl logs shell -c main
  check "$version: the last line" =three kubectl logs shell -c main --tail=1
  check "$version: logs of an init container" =prepared kubectl logs shell -c first
  check "$version: logs with times" '~^2[0-9]{3}-[0-9-]+T[0-9:]+\.[0-9]{9}Z one$' kubectl logs shell -c main --timestamps
  fails "$version: which container" 'choose one of: [main web] or one of the init containers: [first]' \
    kubectl get --raw /api/v1/namespaces/default/pods/shell/log
  eventually "$version: the life before" ='this life' kubectl logs restarts --previous
  fails "$version: a pod that waits" 'container "main" in pod "waits" is waiting to start' kubectl logs waits
  check "$version: a command" =out kubectl exec shell -c main -- sh -c 'echo out'
  fails "$version: its exit code" 'command terminated with exit code 7' kubectl exec shell -c main -- sh -c 'exit 7'
  check "$version: its input" =typed bash -c typed
  check "$version: copies" 'the same' bash -c copied
  check "$version: a port" '200 OK' bash -c from_port
  eventually "$version: what pods use" '~^shell +[0-9]+m +[0-9]+Mi' kubectl top pods
  check "$version: what nodes use" '~^clients-node +[0-9]+m +[0-9]+%' kubectl top nodes
  kubectl delete -f "$work/pods.yaml" --force >/dev/null 2>&1
  eventually "$version: all gone" '=' kubectl get pods -o name
done
if grep -E 'panicked|ERROR' "$work/server.log"; then record 1 'the log has no errors' ''; fi
finish
