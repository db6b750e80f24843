#!/usr/bin/env bash
# Rollouts, scaling, waiting and draining with kubectl on simulated nodes: tests/clients/rollout.sh SETPOINT KUBECTL
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
setpoint=${1:?names no server binary}
kubectl=${2:?names no kubectl}
COMMAND_SECONDS=60
# shellcheck source=tests/clients/check.sh
source "$here/check.sh"
# shellcheck source=tests/clients/simulated.sh
source "$here/simulated.sh"
kubectl() { "$kubectl" "$@"; }
export kubectl
export -f kubectl

k() { # k NAME EXPECTED WORDS...
  check "$1" "$2" "$kubectl" "${@:3}"
}

k 'create' 'created' create deployment web --image=app:1 --replicas=4
k 'rollout status waits for it' 'successfully rolled out' rollout status deployment/web --timeout=30s
k 'wait for its condition' 'condition met' wait deployment/web --for=condition=Available --timeout=30s
k 'a new image' 'image updated' set image deployment/web app=app:2
k 'rolls out' 'successfully rolled out' rollout status deployment/web --timeout=30s
k 'history has both' '~^2 ' rollout history deployment/web
k 'undo' 'rolled back' rollout undo deployment/web
k 'is rolled out' 'successfully rolled out' rollout status deployment/web --timeout=30s
k 'the first image is back' '=app:1' get deployment web -o 'jsonpath={.spec.template.spec.containers[0].image}'
k 'pause' 'paused' rollout pause deployment/web
k 'a change while it is paused' 'image updated' set image deployment/web app=app:3
k 'no pod has it' '!app:3' get pods -l app=web -o 'jsonpath={.items[*].spec.containers[0].image}'
k 'resume' 'resumed' rollout resume deployment/web
k 'now it rolls out' 'successfully rolled out' rollout status deployment/web --timeout=30s
eventually 'all pods have it' '=app:3 app:3 app:3 app:3' "$kubectl" get pods -l app=web \
  --field-selector=status.phase=Running -o 'jsonpath={.items[*].spec.containers[0].image}'
k 'restart' 'restarted' rollout restart deployment/web
k 'is done' 'successfully rolled out' rollout status deployment/web --timeout=30s
k 'scale' 'scaled' scale deployment/web --replicas=6
k 'wait for a number' 'condition met' wait deployment/web --for=jsonpath='{.status.readyReplicas}'=6 --timeout=30s

k 'a budget' 'created' create poddisruptionbudget web --selector=app=web --min-available=6
eventually 'the budget counts' '=6' "$kubectl" get pdb web -o 'jsonpath={.status.currentHealthy}'
fails 'drain respects it' 'violate the pod'"'"'s disruption budget' "$kubectl" drain simulated-0 --timeout=5s
k 'the node is cordoned all the same' '=true' get node simulated-0 -o 'jsonpath={.spec.unschedulable}'
k 'six pods are still there' '=6' get deployment web -o 'jsonpath={.status.readyReplicas}'
k 'a looser budget' 'patched' patch pdb web -p '{"spec": {"minAvailable": 5}}'
k 'drain goes through, one by one' 'drained' drain simulated-0 --timeout=50s
k 'nothing is left there' '=' get pods -l app=web --field-selector=spec.nodeName=simulated-0 -o name
k 'all run on the other node' 'condition met' wait deployment/web --for=jsonpath='{.status.readyReplicas}'=6 --timeout=30s
k 'uncordon' 'uncordoned' uncordon simulated-0
k 'a stateful set' 'created' apply -f - <<'YAML'
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: "db:1"}]}
YAML
k 'comes up in order' 'complete' rollout status statefulset/db --timeout=30s
k 'a new image of it' 'image updated' set image statefulset/db db=db:2
k 'is rolled out' 'complete' rollout status statefulset/db --timeout=60s
k 'undo of it' 'rolled back' rollout undo statefulset/db
k 'is done too' 'complete' rollout status statefulset/db --timeout=60s
finish
