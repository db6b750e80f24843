# create in its many forms, and its refusals.

check "create namespace" "=namespace/$ns created" kubectl create namespace "$ns"
eventually "the namespace gets its service account" 'serviceaccount/default' kubectl get serviceaccount default -o name
eventually "the namespace gets the root certificate" 'configmap/kube-root-ca.crt' kubectl get configmap kube-root-ca.crt -o name

printf 'from a file\n' >file.txt
printf 'A=1\nB=2\n' >env.txt
check "create configmap" '=configmap/a created' kubectl create configmap a --from-literal=k=v --from-file=file.txt
check "create configmap: its data" $'=v/from a file' kubectl get configmap a -o 'jsonpath={.data.k}/{.data.file\.txt}'
check "create configmap from environment" '=1 2' \
  bash -c 'kubectl create configmap env --from-env-file=env.txt >&- && kubectl get configmap env -o "jsonpath={.data.A} {.data.B}"'
fails "create again" '=error: failed to create configmap: configmaps "a" already exists' kubectl create configmap a
check "create secret" '=secret/s created' kubectl create secret generic s --from-literal=password=hunter2
check "create secret: encoded" '=aHVudGVyMg==' kubectl get secret s -o 'jsonpath={.data.password}'
check "create secret docker-registry" '=kubernetes.io/dockerconfigjson' \
  bash -c 'kubectl create secret docker-registry pull --docker-username=u --docker-password=p >&- && kubectl get secret pull -o jsonpath={.type}'
check "create serviceaccount" '=serviceaccount/robot created' kubectl create serviceaccount robot
check "create deployment" '=deployment.apps/web created' kubectl create deployment web --image=img:1 --replicas=2 --port=80
check "create service" '=service/plain created' kubectl create service clusterip plain --tcp=80:8080
check "expose" '=service/web exposed' kubectl expose deployment web --port=80 --target-port=8080
check "expose: it gets an address" '~^[0-9.]+ 8080$' kubectl get service web -o 'jsonpath={.spec.clusterIP} {.spec.ports[0].targetPort}'
check "create role" '=role.rbac.authorization.k8s.io/reader created' kubectl create role reader --verb=get,list --resource=configmaps
check "create rolebinding" '=rolebinding.rbac.authorization.k8s.io/reader created' \
  kubectl create rolebinding reader --role=reader --serviceaccount="$ns:robot"
check "create clusterrole" "=clusterrole.rbac.authorization.k8s.io/$ns created" \
  kubectl create clusterrole "$ns" --verb=get --resource=nodes
check "create clusterrolebinding" "=clusterrolebinding.rbac.authorization.k8s.io/$ns created" \
  kubectl create clusterrolebinding "$ns" --clusterrole="$ns" --serviceaccount="$ns:robot"
check "create quota" '=resourcequota/q created' kubectl create quota q --hard=count/ingresses.networking.k8s.io=5
check "create poddisruptionbudget" '=poddisruptionbudget.policy/pdb created' \
  kubectl create poddisruptionbudget pdb --selector=app=web --min-available=1
check "create priorityclass" "=priorityclass.scheduling.k8s.io/$ns created" kubectl create priorityclass "$ns" --value=10
check "create ingress" '=ingress.networking.k8s.io/i created' kubectl create ingress i --rule='a.example/*=web:80'
check "create job" '=job.batch/once created' kubectl create job once --image=img:1
check "create cronjob" '=cronjob.batch/tick created' kubectl create cronjob tick --image=img:1 --schedule='0 0 1 1 *'
check "create job from cronjob" '=job.batch/tock created' kubectl create job tock --from=cronjob/tick
check "run" '=pod/lone created' kubectl run lone --image=img:1 --labels=run=lone
check "autoscale" '~^horizontalpodautoscaler.autoscaling/web autoscaled$' kubectl autoscale deployment web --min=1 --max=3 --cpu-percent=50
check "generateName" '~^configmap/gen-[bcdfghjklmnpqrstvwxz2456789]{5} created$' kubectl create -f - <<'Y'
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}}
Y
check "create from YAML with several documents" $'=configmap/y1 created\nconfigmap/y2 created' kubectl create -f - <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: y1}
data: {octal: "0644"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: y2}
Y
check "create a List" $'=configmap/l1 created\nconfigmap/l2 created' kubectl create -f - <<'Y'
{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "l1"}},
  {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "l2"}}]}
Y
fails "create: AlreadyExists from a file" '=Error from server (AlreadyExists): error when creating "STDIN": configmaps "y1" already exists' \
  kubectl create -f - <<<'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "y1"}}'
fails "a namespace that is not there" '=Error from server (NotFound): error when creating "STDIN": namespaces "nowhere" not found' \
  kubectl create -f - <<<'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "nowhere"}}'
fails "another kind's version" '=error: resource mapping not found for name: "x" namespace: "" from "STDIN": no matches for kind "Deployment" in version "apps/v7"
ensure CRDs are installed first' kubectl create -f - <<<'{"apiVersion": "apps/v7", "kind": "Deployment", "metadata": {"name": "x"}}'
fails "an invalid name" '=The ConfigMap "Bad_Name" is invalid: metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '"'-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')" \
  kubectl create -f - <<<'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Bad_Name"}}'
fails "a selector that misses its template" '=The Deployment "miss" is invalid: spec.template.metadata.labels: Invalid value: {"app":"b"}: `selector` does not match template `labels`' \
  kubectl create -f - <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata: {name: miss}
spec:
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: b}}
    spec: {containers: [{name: c, image: i}]}
Y
fails "several faults are listed" '* spec.containers[1].name: Duplicate value: "c"' kubectl create -f - <<'Y'
apiVersion: v1
kind: Pod
metadata: {name: bad}
spec:
  restartPolicy: Sometimes
  containers: [{name: c, image: i}, {name: c, image: i}]
Y
fails "several faults are listed: the other" '* spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"' \
  kubectl create -f - <<'Y'
apiVersion: v1
kind: Pod
metadata: {name: bad}
spec:
  restartPolicy: Sometimes
  containers: [{name: c, image: i}, {name: c, image: i}]
Y
fails "a value of the wrong type" 'cannot unmarshal number into Go struct field ConfigMap.data of type string' \
  kubectl create --validate=false -f - <<<'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": 1}}'

# Dry runs write nothing.
check "dry-run=server" '=configmap/dry created (server dry run)' kubectl create configmap dry --dry-run=server
fails "dry-run=server wrote nothing" '=Error from server (NotFound): configmaps "dry" not found' kubectl get configmap dry
check "dry-run=client" 'name: dry' kubectl create configmap dry --dry-run=client -o yaml
check "dry-run=server defaults" 'RollingUpdate' \
  kubectl create deployment dry --image=i --dry-run=server -o 'jsonpath={.spec.strategy.type}'
check "dry-run=server for delete" '=configmap "a" deleted' bash -c 'kubectl delete configmap a --dry-run=server | sed "s/ (server dry run).*//; s/ from .* namespace//"'
check "dry-run=server for delete: still there" '=configmap/a' kubectl get configmap a -o name

# Field validation.
unknown='{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fv"}, "datta": {"a": "b"}}'
fails "validation: strict" 'strict decoding error: unknown field "datta"' kubectl create --validate=strict -f - <<<"$unknown"
check "validation: warn" $'=Warning: unknown field "datta"\nconfigmap/fv created' kubectl create --validate=warn -f - <<<"$unknown"
check "validation: ignore" '=configmap/fv replaced' kubectl replace --validate=ignore -f - <<<"$unknown"
check "validation: the field was dropped" '!datta' kubectl get configmap fv -o yaml
# kubectl itself drops a field that is there twice, so this one is sent as it is.
fails "validation: a field twice" 'strict decoding error: duplicate field "data"' \
  kubectl create --raw "/api/v1/namespaces/$ns/configmaps?fieldValidation=Strict" -f - \
  <<<'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fv2"}, "data": {"a": "b"}, "data": {"c": "d"}}'
