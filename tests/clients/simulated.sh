# A server with two simulated nodes for one suite. To be sourced; needs $setpoint and $kubectl.
work=$(mktemp -d)
export KUBECONFIG=$work/kubeconfig
"$setpoint" server --data-dir "$work/data" --listen 127.0.0.1:0 --kubeconfig "$KUBECONFIG" --simulated-nodes 2 \
  >"$work/server.log" 2>&1 &
server=$!
clean_up() {
  kill "$server" 2>/dev/null
  wait "$server" 2>/dev/null
  rm -rf "$work"
}
trap clean_up EXIT
for ((i = 0; i < 300; i++)); do
  [[ -s $KUBECONFIG && $("$kubectl" get --raw /readyz 2>/dev/null) == ok ]] && break
  sleep 0.1
done
cd "$work" || exit 1

