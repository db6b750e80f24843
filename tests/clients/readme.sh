#!/usr/bin/env bash
# readme.sh KUBECTL: the README's first command, word for word but for where its data and its kubeconfig go, in a network
# namespace of its own; then the same again on what it left. As root on Linux.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [[ -z ${README_ALONE:-} ]]; then
  README_ALONE=1 exec unshare --net -- "$0" "$@"
fi
# shellcheck source=check.sh
source "$here/check.sh"
kubectl=$1
work=$(mktemp -d)
running='' ended=''
# Loopback is down in a new namespace, and only python3 is sure to be here: SIOCSIFFLAGS with IFF_UP and IFF_RUNNING.
python3 -c 'import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 0x41))'

cd "$here/../.." || exit 1
command=$(sed -n 's/^    \(cargo run .*[^ ]\)  *# run it.*/\1/p' README.md)
command=${command//.\/data/$work/data}
command=${command//.\/kubeconfig/$work/kubeconfig}
export KUBECONFIG=$work/kubeconfig

# start LOG [OPTION...]: the command, in a process group of its own as in a terminal.
start() {
  local log=$work/$1
  shift
  # shellcheck disable=SC2086
  setsid $command "$@" >"$log" 2>&1 &
  running=$!
}
# What Ctrl-C does: the whole group is told, and the command ends by itself. Sets ended.
interrupt() {
  kill -INT -- "-$running"
  wait "$running"
  ended=$?
  running=''
}
clean_up() {
  if [[ -n $running ]]; then
    # The containers would outlive it.
    timeout 10 "$kubectl" delete deployment web --grace-period=1 >/dev/null 2>&1
    for ((i = 0; i < 100; i++)); do
      [[ -z $(left) ]] && break
      sleep 0.1
    done
    interrupt
  fi
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# What is asked more than once runs under a time limit, in a shell of its own.
page_of() {
  exec 3<>"/dev/tcp/$1/8080" && printf 'GET / HTTP/1.0\r\n\r\n' >&3 && head -n 1 <&3
}
ready() { "$kubectl" get deployment web -o 'jsonpath={.status.readyReplicas} of {.spec.replicas}'; }
pods() { "$kubectl" get pods -o 'jsonpath={range .items[*]}{.metadata.uid} {.status.containerStatuses[*].restartCount}{"\n"}{end}'; }
count() { "$kubectl" get pods --no-headers | wc -l; }
left() { find "$work/data/runtime/sandboxes" -mindepth 1 -maxdepth 1 2>/dev/null; }
export kubectl work
export -f page_of ready pods count left

# The build is not what is measured here.
PATIENCE_SECONDS=60
start up.log
eventually 'five containers are ready' '=5 of 5' bash -c ready
eventually 'it says how to go on' 'Ctrl-C stops' cat "$work/up.log"
for address in $("$kubectl" get pods -o 'jsonpath={.items[*].status.podIP}'); do
  check "the page at $address" '200 OK' bash -c "page_of $address"
done
check 'five pages were asked for' '=5' bash -c count
before=$(pods)
interrupt
check 'Ctrl-C ends it' '=0' printf '%s' "$ended"
check 'the containers go on' '~.' bash -c 'left; true'

start again.log --on-exit stop
eventually 'it is ready again' 'Ctrl-C stops' cat "$work/again.log"
check 'on the same containers' "=$before" bash -c pods
interrupt
check 'Ctrl-C ends it again' '=0' printf '%s' "$ended"
check 'nothing is left of them' '=' bash -c 'left; true'
finish
