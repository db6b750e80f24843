#!/usr/bin/env bash
# Plan, apply, drift, blame, history, fights, why and wait against a server with simulated nodes:
# tests/clients/plan.sh SETPOINT KUBECTL
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
setpoint=${1:?names no server binary}
kubectl=${2:?names no kubectl}
# shellcheck source=tests/clients/check.sh
source "$here/check.sh"

# shellcheck source=tests/clients/simulated.sh
source "$here/simulated.sh"

# exits NAME CODE COMMAND...: the exit code is the whole answer.
exits() {
  # shellcheck disable=SC2016
  check "$1" "=code $2" bash -c '"$@" >/dev/null 2>&1; echo "code $?"' _ "${@:3}"
}

web() { # REPLICAS IMAGE
  cat <<YAML
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: $1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "$2", resources: {requests: {cpu: 100m}}}]}
YAML
}
secret() { printf 'apiVersion: v1\nkind: Secret\nmetadata: {name: creds}\nstringData: {password: %s}\n' "$1"; }
map() { printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {a: "%s"}\n' "$1" "$2"; }

# A plan is the truth, and twice is nothing.
web 3 app:1 >web.yaml
exits 'a plan with changes has its exit code' 2 "$setpoint" plan -f web.yaml --detailed-exitcode
check 'a plan shows what follows' '*+ 3 pods of deployment/web, by replicaset-controller*' "$setpoint" plan -f web.yaml
check 'a plan sums up' '*Plan: 1 to add, 0 to change, 0 to destroy.*' "$setpoint" plan -f web.yaml
fails 'a plan writes nothing' '*not found*' "$kubectl" get deployment web
fails 'nobody agreed' '*nothing was written*' "$setpoint" apply -f web.yaml </dev/null
fails 'and nothing was written' '*not found*' "$kubectl" get deployment web
check 'apply does it and waits' '*deployment/web created*deployment/web is as it should be*' "$setpoint" apply -f web.yaml --yes
check 'three pods are there' '3' bash -c "'$kubectl' get pods -l app=web --no-headers | wc -l | tr -d ' '"
check 'twice is nothing' '*No changes.*' "$setpoint" apply -f web.yaml --yes
exits 'a plan without changes has another' 0 "$setpoint" plan -f web.yaml --detailed-exitcode
check 'JSON is versioned' '*"apiVersion": "setpoint.dev/v1alpha1"*' "$setpoint" plan -f web.yaml -o json

# A kept plan is pinned to what it touches.
web 3 app:2 >web.yaml
check 'a plan is kept' '*' "$setpoint" plan -f web.yaml --out kept.json
check 'only its owner may read it' '600' stat -c %a kept.json
check 'others write other things' '*' "$kubectl" create configmap unrelated --from-literal=a=b
check 'which does not void it' '*deployment/web changed*' "$setpoint" apply --plan kept.json --yes
web 3 app:3 >web.yaml
check 'another one is kept' '*' "$setpoint" plan -f web.yaml --out kept.json
check 'somebody changes the very field' '*' "$kubectl" set image deployment/web web=app:9
fails 'then it stops before the first write' '*moved*nothing was written*planned*"app:2" -> "app:3"*now*conflict*' \
  "$setpoint" apply --plan kept.json --yes
check 'the field is untouched' 'app:9' "$kubectl" get deployment web -o 'jsonpath={.spec.template.spec.containers[0].image}'
sed 's/"replace": false/"replace": true/' kept.json >edited.json
fails 'an edited plan is refused' '*was edited*' "$setpoint" apply --plan edited.json --yes
sed 's/v1alpha1/v9/' kept.json >newer.json
fails 'so is one of another version' '*another version*' "$setpoint" apply --plan newer.json --yes
fails 'so is what is no plan' '*no plan*' "$setpoint" apply --plan web.yaml --yes
fails 'so is a plan that is not there' '*nothing was written*' "$setpoint" apply --plan absent.json --yes

# Drift has a name on it.
exits 'drift has its exit code' 2 "$setpoint" drift -f web.yaml
check 'the field and its editor' '*image: declared "app:3", is "app:9"*edited by hand by kubernetes-admin*' \
  bash -c "'$setpoint' drift -f web.yaml || true"
check 'blame names them too' '*kubectl*image: "app:9"*(was "app:2")*' "$setpoint" blame deployment/web
check 'history tells it' '*image: "app:2" -> "app:9"*' "$setpoint" history deployment/web
IMAGE='spec.template.spec.containers[name=web].image'
check 'drift is acknowledged' '*known until*' "$setpoint" drift ack deployment/web "$IMAGE" --for 1h
exits 'and raises no exit code then' 0 "$setpoint" drift -f web.yaml
check 'but is shown' '*known by kubernetes-admin*' "$setpoint" drift -f web.yaml
check 'the time is over' '*' "$kubectl" annotate deployment web setpoint.dev/drift-acknowledged-
exits 'it is drift again' 2 "$setpoint" drift -f web.yaml
check 'undo takes the edit back' '*image: "app:9" -> "app:2"*deployment/web changed*' "$setpoint" undo deployment/web --yes
check 'it is as it was' 'app:2' "$kubectl" get deployment web -o 'jsonpath={.spec.template.spec.containers[0].image}'
check 'and once more' '*' "$kubectl" set image deployment/web web=app:9
check 'drift is fixed' '*deployment/web changed*' "$setpoint" drift -f web.yaml --fix --yes
exits 'then there is none' 0 "$setpoint" drift -f web.yaml
check 'once more for force' '*' "$kubectl" set image deployment/web web=app:9
check 'force takes the field back' '*is taken from kubectl*deployment/web changed*' \
  "$setpoint" apply -f web.yaml --yes --force-conflicts
exits 'then there is no drift' 0 "$setpoint" drift -f web.yaml
check 'what is missing is drift' '*is missing*' bash -c "'$kubectl' delete deployment web >/dev/null; '$setpoint' drift -f web.yaml || true"
check 'and comes back' '*deployment/web created*' "$setpoint" apply -f web.yaml --yes

# What an autoscaler chooses is shown, not reset, and is no drift.
cat >scaler.yaml <<'YAML'
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 1, maxReplicas: 9}
YAML
check 'an autoscaler is declared' '*' "$setpoint" apply -f scaler.yaml --yes --no-wait
check 'it is named before it fights' '*a manifest sets replicas that an autoscaler chooses*' "$setpoint" fights
check 'it scales' '*scaled*' "$kubectl" scale deployment web --replicas=5
check 'the plan leaves its choice alone' "*5 is HorizontalPodAutoscaler/web's; declared is 3*" "$setpoint" plan -f web.yaml
exits 'and it is no drift' 0 "$setpoint" drift -f web.yaml
check 'apply leaves it alone' '*' "$setpoint" apply -f web.yaml --yes
check 'five stay' '5' "$kubectl" get deployment web -o 'jsonpath={.spec.replicas}'
check 'the autoscaler goes' '*deleted*' "$kubectl" delete hpa web

# Secrets never appear.
secret correct-horse >secret.yaml
hidden() { ! "$@" 2>&1 | grep -E 'correct-horse|Y29ycmVjdC1ob3JzZQ|battery-staple|YmF0dGVyeS1zdGFwbGU'; }
export -f hidden
conceals() {
  # shellcheck disable=SC2016
  check "$1" '=' bash -c 'hidden "$@"' _ "${@:2}"
}
conceals 'not in a plan' "$setpoint" plan -f secret.yaml
conceals 'not in JSON' "$setpoint" plan -f secret.yaml -o json
conceals 'not in a kept plan' bash -c "'$setpoint' plan -f secret.yaml --out secret.json && cat secret.json"
check 'a kept plan finds it in its manifest' '*secret/creds created*' "$setpoint" apply --plan secret.json --yes
check 'it is what was declared' 'correct-horse' bash -c "'$kubectl' get secret creds -o 'jsonpath={.data.password}' | base64 -d"
secret battery-staple >secret.yaml
conceals 'not in a change' "$setpoint" plan -f secret.yaml
conceals 'not in drift' "$setpoint" drift -f secret.yaml
conceals 'not in blame' "$setpoint" blame secret/creds
conceals 'not in history' "$setpoint" history secret/creds
fails 'a kept plan whose manifest changed stops' '*has changed since*' "$setpoint" apply --plan secret.json --yes

# Pruning knows what was declared, and refuses an empty set.
mkdir set && map one 1 >set/one.yaml && map two 2 >set/two.yaml
check 'a set is applied' '*2 to add*' "$setpoint" apply -f set --prune --yes
rm set/two.yaml
check 'what is no longer declared goes' '*- configmap/two will be destroyed*no longer declared*' "$setpoint" plan -f set --prune
check 'a plan that prunes is kept' '*' "$setpoint" plan -f set --prune --out prune.json
check 'and performed' '*configmap/two deleted*' "$setpoint" apply --plan prune.json --yes
fails 'but not once the inventory has changed' '*has changed since the plan was made*' "$setpoint" apply --plan prune.json --yes
fails 'really' '*not found*' "$kubectl" get configmap two
mkdir empty
fails 'an empty set prunes nothing' '*nothing is declared*' "$setpoint" apply -f empty --prune --yes
check 'one stays' 'configmap/one' "$kubectl" get configmap one -o name

# A guard lives on the object and outlives its manifest.
map two 2 >set/two.yaml
check 'a guard is set' '*' "$setpoint" apply -f set --prune --yes
check 'on the object' '*' "$kubectl" annotate configmap two setpoint.dev/prevent-destroy=true
rm set/two.yaml
fails 'pruning is refused' '*setpoint.dev/prevent-destroy forbids*' "$setpoint" apply -f set --prune --yes

# What cannot be changed in place is replaced only when that is asked for.
web 1 app:1 | sed 's/app: web}/app: web, tier: front}/g' >other.yaml
fails 'it is refused' '*immutable*has to be asked for*' "$setpoint" apply -f other.yaml --force-conflicts --yes
check 'or replaced' '*-/+ deployment/web must be replaced*forces replacement*' "$setpoint" plan -f other.yaml --force-conflicts --replace
check 'for real' '*deployment/web deleted*deployment/web created*' "$setpoint" apply -f other.yaml --force-conflicts --replace --yes

# Bad input: a clear error, an exit code, nothing written.
printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good}\n---\napiVersion: v1\nkind: Nonsense\nmetadata: {name: bad}\n' >half.yaml
fails 'half-valid files write nothing' '*no matches for kind "Nonsense"*nothing was written*' \
  bash -c "'$setpoint' apply -f half.yaml --yes 2>&1"
fails 'really nothing' '*not found*' "$kubectl" get configmap good
printf 'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: bad}\nspec: {replicas: -1}\n' >invalid.yaml
exits 'an invalid object fails the plan' 1 "$setpoint" plan -f invalid.yaml
check 'with the path of the field' '*spec.replicas*' bash -c "'$setpoint' plan -f invalid.yaml || true"
printf 'a: [\n' >broken.yaml
fails 'broken YAML is named with its file' '*broken.yaml*' "$setpoint" plan -f broken.yaml
fails 'so is a missing file' '*absent.yaml*' "$setpoint" plan -f absent.yaml
fails 'nothing declared is an error' '*nothing is declared*' "$setpoint" plan

# Why not, and waiting.
cat >broken.yaml <<'YAML'
apiVersion: apps/v1
kind: Deployment
metadata: {name: greedy}
spec:
  replicas: 2
  selector: {matchLabels: {app: greedy}}
  template:
    metadata: {labels: {app: greedy}}
    spec: {containers: [{name: c, image: app, resources: {requests: {cpu: "1000"}}}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: lost}
spec:
  selector: {matchLabels: {app: lost}}
  template:
    metadata: {labels: {app: lost}}
    spec: {containers: [{name: c, image: "missing:404"}]}
YAML
check 'a plan knows what does not fit' '*2 pods of deployment/greedy find no node: *Insufficient cpu*' "$setpoint" plan -f broken.yaml
check 'it is applied all the same' '*' "$setpoint" apply -f broken.yaml --yes --no-wait
eventually 'why says which node lacks what' '*2 of 2: Unschedulable: *Insufficient cpu*' \
  bash -c "'$setpoint' why deployment/greedy || true"
eventually 'why finds the image' '*deployment/lost > replicaset/* > pod/*ImagePullBackOff*next: kubectl describe pod/*' \
  bash -c "'$setpoint' why deployment/lost || true"
exits 'wait ends at the deadline' 2 "$setpoint" wait deployment/lost --timeout 1
exits 'wait ends well' 0 "$setpoint" wait deployment/web --timeout 30
exits 'so does rollout status' 0 "$setpoint" rollout status deployment/web --timeout 30
check 'rollout status says why not' '*deployment/lost is not as it should be*' \
  bash -c "'$setpoint' rollout status deployment/lost --timeout 1 || true"

# A fight is an event, and can be frozen.
for round in 1 2 3 4; do
  "$kubectl" patch configmap unrelated --field-manager "manager-$((round % 2))" --type merge -p "{\"data\":{\"a\":\"$((round % 2))\"}}" >/dev/null
done
check 'a fight is told by an event' '*manager-0*and manager-1*fight over data?a?:*' \
  "$kubectl" get events --field-selector reason=FieldFight -o 'jsonpath={.items[*].message}'
exits 'fights has its exit code' 2 "$setpoint" fights
check 'it is frozen' '*' "$kubectl" annotate configmap unrelated setpoint.dev/fights=freeze
fails 'then neither writes' '*is frozen*' "$kubectl" patch configmap unrelated --field-manager manager-1 --type merge -p '{"data":{"a":"1"}}'
check 'but somebody else' '*patched*' "$kubectl" patch configmap unrelated --field-manager third --type merge -p '{"data":{"a":"7"}}'
exits 'and it is over' 0 "$setpoint" fights
check 'a quota is named' '*' "$kubectl" create quota few --hard=pods=0
web 1 app:1 | sed 's/name: web}/name: quoted}/; s/app: web}/app: quoted}/g' >quoted.yaml
check 'a plan foresees it' '*exceeded quota: few*' "$setpoint" plan -f quoted.yaml
check 'and it comes to be so' '*' "$setpoint" apply -f quoted.yaml --yes --no-wait
eventually 'why names it' '*FailedCreate: *exceeded quota: few*' bash -c "'$setpoint' why deployment/quoted || true"
check 'what is fine is fine' '*is as it should be*' "$setpoint" why configmap/one
fails 'what is not there is not found' '*not found*' "$setpoint" why deployment/absent
fails 'nonsense is nonsense' '*KIND/NAME*' "$setpoint" why nonsense
finish
