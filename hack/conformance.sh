#!/usr/bin/env bash
# Runs upstream's conformance tests against a server of its own: hack/conformance.sh [STAGE] [REGEX...]
#
#   STAGE           s1 (default) to s7, each with the classes of those before it (docs/conformance.md)
#   REGEX           only the tests of the stage's list whose line matches one of these
#   SETPOINT        the server's binary (default: the release build, made if need be)
#   SETPOINT_TOOLS  where hack/tools.sh puts the tests and kubectl (default ~/.cache/setpoint/tools)
#   SETPOINT_JOBS   test processes at a time (default 3); tests marked serial then run alone
#   SETPOINT_OUT    where logs and reports go (default target/conformance)
#
# Names of failed tests go to OUT/failed. The last line is `N passed, N failed`.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=${SETPOINT_TOOLS:-$HOME/.cache/setpoint/tools}
jobs=${SETPOINT_JOBS:-3}
out=${SETPOINT_OUT:-$here/target/conformance}
stage=${1:-s1}
[[ $# -gt 0 ]] && shift
READY_TENTHS=300  # no start may take longer
RUN_MINUTES=120   # no test process may take longer
COMPACTION_SECONDS=60 # one test waits until a page's token expires

case $stage in
  s1) classes='a' ;;
  s2) classes='a b' ;;
  s3) classes='a b c-fake f-fake' ;;
  s4) classes='a b c-fake f-fake c-real g' ;;
  s5) classes='a b c-fake f-fake c-real g h' ;;
  s6) classes='a b c-fake f-fake c-real g h e' ;;
  s7) classes='a b c-fake f-fake c-real g h e d' ;;
  *) printf 'no stage %s: s1 to s7\n' "$stage" >&2; exit 2 ;;
esac
# Two nodes whose pods are played: even tests of the API alone pick a node's name.
nodes=2

rm -rf "$out" && mkdir -p "$out" || exit 1
work=$(mktemp -d)
server=''
clean_up() {
  local pid
  for pid in $(jobs -p); do kill "$pid" 2>/dev/null; done
  wait
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

SETPOINT_TOOLS=$tools "$here/hack/tools.sh" kubectl137 e2e137 >/dev/null || exit 1
e2e=$tools/bin/e2e-1.37.test
kubectl=$tools/bin/kubectl-1.37
setpoint=${SETPOINT:-}
if [[ -z $setpoint ]]; then
  (cd "$here" && cargo build --release --locked --package setpoint) || exit 1
  setpoint=${CARGO_TARGET_DIR:-$here/target}/release/setpoint
fi

for class in $classes; do cat "$here/tests/conformance/$class.txt"; done | sort -u >"$work/all"
if [[ $# -gt 0 ]]; then
  grep -E "$(IFS='|'; printf '%s' "$*")" "$work/all" >"$work/list"
else
  cp "$work/all" "$work/list"
fi
[[ -s $work/list ]] || { printf 'no test matches\n' >&2; exit 2; }

start_server() {
  export KUBECONFIG=$work/kubeconfig
  SETPOINT_LOG=${SETPOINT_LOG:-info} "$setpoint" server --data-dir "$work/data" --listen 127.0.0.1:0 \
    --kubeconfig "$KUBECONFIG" --simulated-nodes "$nodes" --compaction-interval "$COMPACTION_SECONDS" \
    >"$out/server.log" 2>&1 &
  server=$!
  local i
  for ((i = 0; i < READY_TENTHS; i++)); do
    kill -0 "$server" 2>/dev/null || break
    [[ -s $KUBECONFIG && $("$kubectl" get --raw /readyz 2>/dev/null) == ok ]] && return 0
    sleep 0.1
  done
  printf 'the server did not become ready\n' >&2
  tail -n 20 "$out/server.log" >&2
  return 1
}

# run NAME LIST LABELS: one test process. Its log is OUT/NAME.log.
run() {
  local name=$1 list=$2 labels=$3
  [[ -s $list ]] || return 0
  mkdir -p "$out/$name"
  (cd "$out/$name" && "$e2e" --kubeconfig="$KUBECONFIG" --provider=skeleton --disable-log-dump \
    --kubectl-path="$kubectl" --report-dir="$out/$name" --num-nodes="$nodes" --allowed-not-ready-nodes=-1 \
    --ginkgo.no-color --ginkgo.v --ginkgo.label-filter="Conformance && $labels" \
    --ginkgo.timeout="${RUN_MINUTES}m" --ginkgo.focus="$(paste -sd'|' "$list")" >"$out/$name.log" 2>&1)
}

start_server || exit 1
split -n "r/$jobs" -d "$work/list" "$work/part."
running=()
for part in "$work"/part.*; do
  run "parallel-${part##*.}" "$part" '!Serial' &
  running+=($!)
done
wait "${running[@]}"
run serial "$work/list" Serial

# Each process ends with `X! -- N Passed | N Failed | ...`; one that does not has died.
passed=0 failed=0
: >"$out/failed"
for log in "$out"/*.log; do
  [[ $log == */server.log ]] && continue
  counts=$(grep -aoE -- '-- [0-9]+ Passed \| [0-9]+ Failed' "$log" | tail -n 1)
  if [[ $counts =~ ([0-9]+)\ Passed\ \|\ ([0-9]+)\ Failed ]]; then
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2]))
  else
    printf '%s: the test process died\n' "${log##*/}" >>"$out/failed"
    failed=$((failed + 1))
  fi
  grep -aE '^  \[(FAIL|PANICKED!|TIMEDOUT|INTERRUPTED|ABORTED)\] .*\[Conformance\]' "$log" | sort -u >>"$out/failed"
done
cat "$out/failed"
printf '%d passed, %d failed\n' "$passed" "$failed"
[[ $failed -eq 0 ]]
