# Client-side and server-side apply, diff, prune.

app() { # app REPLICAS IMAGE [EXTRA]
  cat <<Y
apiVersion: apps/v1
kind: Deployment
metadata: {name: app, labels: {set: apply}}
spec:
  replicas: $1
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec:
      containers:
      - name: main
        image: $2
        ports: [{containerPort: 80}]
        ${3:-}
Y
}
app 1 img:1 >app1.yaml
app 2 img:2 'env: [{name: A, value: "1"}]' >app2.yaml
check "apply: created" '=deployment.apps/app created' kubectl apply -f app1.yaml
check "apply: unchanged" '=deployment.apps/app unchanged' kubectl apply -f app1.yaml
check "apply: dry-run=server" '=deployment.apps/app configured (server dry run)' kubectl apply -f app2.yaml --dry-run=server
check "apply: the dry run wrote nothing" '=1' kubectl get deployment app -o 'jsonpath={.spec.replicas}'
fails "diff: differs" '~^\+ +image: img:2' kubectl diff -f app2.yaml
check "apply: configured" '=deployment.apps/app configured' kubectl apply -f app2.yaml
check "diff: equal" '=' kubectl diff -f app2.yaml
check "apply: what it did" '=2 img:2 1' kubectl get deployment app -o \
  'jsonpath={.spec.replicas} {.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].env[0].value}'
check "apply: what the manifest drops is dropped" '=img:1' bash -c \
  'kubectl apply -f app1.yaml >&- && kubectl get deployment app -o "jsonpath={.spec.template.spec.containers[0].image}{.spec.template.spec.containers[0].env}"'
check "apply: what others set stays" '=1 5' bash -c \
  'kubectl patch deployment app -p "{\"spec\":{\"minReadySeconds\":5}}" >&- && kubectl apply -f app1.yaml >&- &&
   kubectl get deployment app -o "jsonpath={.spec.replicas} {.spec.minReadySeconds}"'
check "apply: view-last-applied" 'image: img:1' kubectl apply view-last-applied deployment app
check "apply: edit-last-applied's annotation" 'img:2' bash -c \
  'kubectl apply set-last-applied -f app2.yaml >&- && kubectl apply view-last-applied deployment app'
check "apply: output" '=app' kubectl apply -f app1.yaml -o 'jsonpath={.metadata.name}'

cm() { printf '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "%s", "labels": {"set": "prune"}}, "data": {"a": "%s"}}\n' "$1" "$2"; }
check "prune: before" $'=configmap/p1 created\nconfigmap/p2 created' kubectl apply -f - < <(cm p1 1 && cm p2 1)
check "prune" $'=configmap/p1 unchanged\nconfigmap/p2 pruned' bash -c \
  'kubectl apply --prune -l set=prune --prune-allowlist=core/v1/ConfigMap -f - 2>&1 | grep -v Warning' < <(cm p1 1)
fails "prune: gone" 'NotFound' kubectl get configmap p2

# Server-side apply.
ssa() { printf '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ssa"}, "data": {%s}}\n' "$1"; }
apply=(kubectl apply --server-side -f -)
check "server-side: created" '=configmap/ssa serverside-applied' "${apply[@]}" < <(ssa '"a": "1", "b": "1"')
revision=$(kubectl get configmap ssa -o 'jsonpath={.metadata.resourceVersion}')
check "server-side: again" '=configmap/ssa serverside-applied' "${apply[@]}" < <(ssa '"a": "1", "b": "1"')
check "server-side: again wrote nothing" "=$revision" kubectl get configmap ssa -o 'jsonpath={.metadata.resourceVersion}'
check "server-side: owner" '=kubectl Apply' kubectl get configmap ssa --show-managed-fields -o \
  'jsonpath={.metadata.managedFields[*].manager} {.metadata.managedFields[*].operation}'
check "server-side: fields owned" '={"f:data":{"f:a":{},"f:b":{}}}' kubectl get configmap ssa --show-managed-fields -o \
  'jsonpath={.metadata.managedFields[0].fieldsV1}'
fails "server-side: conflict" '=error: Apply failed with 1 conflict: conflict with "kubectl": .data.a
Please review the fields above--they currently have other managers. Here
are the ways you can resolve this warning:
* If you intend to manage all of these fields, please re-run the apply
  command with the `--force-conflicts` flag.
* If you do not intend to manage all of the fields, please edit your
  manifest to remove references to the fields that should keep their
  current managers.
* You may co-own fields by updating your manifest to match the existing
  value; in this case, you'"'"'ll become the manager if the other manager(s)
  stop managing the field (remove it from their configuration).
See https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts' \
  "${apply[@]}" --field-manager=other < <(ssa '"a": "2"')
fails "server-side: conflicts" 'error: Apply failed with 2 conflicts: conflicts with "kubectl":
- .data.a
- .data.b' "${apply[@]}" --field-manager=other < <(ssa '"a": "2", "b": "2"')
check "server-side: force" '=configmap/ssa serverside-applied' "${apply[@]}" --field-manager=other --force-conflicts < <(ssa '"a": "2"')
check "server-side: taken" '=2 1' kubectl get configmap ssa -o 'jsonpath={.data.a} {.data.b}'
check "server-side: equal values are shared" '=configmap/ssa serverside-applied' "${apply[@]}" < <(ssa '"a": "2", "b": "1"')
check "server-side: one leaves, the value stays" '=2' bash -c \
  'kubectl apply --server-side --field-manager=other -f - >&- && kubectl get configmap ssa -o jsonpath={.data.a}' < <(ssa '')
check "server-side: the last leaves, the value goes" '=.1' bash -c \
  'kubectl apply --server-side -f - >&- && kubectl get configmap ssa -o "jsonpath={.data.a}.{.data.b}"' < <(ssa '"b": "1"')
check "server-side: patched by hand" '=configmap/ssa patched' kubectl patch configmap ssa --type=merge -p '{"data": {"b": "9"}}'
fails "server-side: conflict with an update" '=error: Apply failed with 1 conflict: conflict with "kubectl-patch" using v1: .data.b' \
  bash -c '"$@" 2>&1 | head -1; exit "${PIPESTATUS[0]}"' - "${apply[@]}" < <(ssa '"b": "1"')
check "server-side: dry run" '=configmap/ssa serverside-applied (server dry run)' "${apply[@]}" --dry-run=server --force-conflicts < <(ssa '"b": "1"')
check "server-side: the dry run wrote nothing" '=9' kubectl get configmap ssa -o 'jsonpath={.data.b}'
fails "server-side: unknown field" 'failed to create typed patch object ('  "${apply[@]}" < <(printf '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ssa"}, "zzz": 1}')
check "server-side: from client-side" '=deployment.apps/app serverside-applied' kubectl apply --server-side -f app1.yaml
check "server-side: a list by key" '=main side' bash -c \
  'kubectl apply --server-side --field-manager=side -f - >&- &&
   kubectl get deployment app -o "jsonpath={.spec.template.spec.containers[*].name}"' <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec: {template: {spec: {containers: [{name: side, image: "img:1"}]}}}
Y
fails "server-side: conflict in a list" '=error: Apply failed with 1 conflict: conflict with "side": .spec.template.spec.containers[name="side"].image' \
  bash -c '"$@" 2>&1 | head -1; exit "${PIPESTATUS[0]}"' - "${apply[@]}" --field-manager=third <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec: {template: {spec: {containers: [{name: side, image: "img:2"}]}}}
Y
check "server-side diff" '=' kubectl diff --server-side -f app1.yaml
