# get in every form of output, selectors, pages, watch.

check "get: columns" '~^NAME +DATA +AGE$' kubectl get configmap a
check "get: row" '~^a +2 +[0-9]+s$' kubectl get configmap a
check "get: no headers" '~^a +2 +[0-9]+s$' kubectl get configmap a --no-headers
check "get: wide" '~^NAME +READY +UP-TO-DATE +AVAILABLE +AGE +CONTAINERS +IMAGES +SELECTOR' kubectl get deployment web -o wide
check "get: wide row" '~^web +0/2 +[0-9] +0 +[0-9]+s +img +img:1 +app=web$' kubectl get deployment web -o wide
check "get: pod columns" '~^NAME +READY +STATUS +RESTARTS +AGE$' kubectl get pod lone
check "get: pod row" '~^lone +0/1 +Pending +0 ' kubectl get pod lone
check "get: service columns" '~^NAME +TYPE +CLUSTER-IP +EXTERNAL-IP +PORT\(S\) +AGE$' kubectl get service web
check "get: service row" '~^web +ClusterIP +[0-9.]+ +<none> +80/TCP ' kubectl get service web
check "get: yaml" '~^apiVersion: v1$' kubectl get configmap a -o yaml
check "get: yaml hides managed fields" '!managedFields' kubectl get configmap a -o yaml
check "get: yaml shows managed fields" 'manager: kubectl-create' kubectl get configmap a -o yaml --show-managed-fields
check "get: json" '=v' bash -c 'kubectl get configmap a -o json | jq -r .data.k'
check "get: name" '=configmap/a' kubectl get configmap a -o name
check "get: jsonpath over a list" '=a env' kubectl get configmap a env -o 'jsonpath={.items[*].metadata.name}'
check "get: jsonpath range" $'=a\nenv' kubectl get configmap a env -o 'jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}'
check "get: go-template" '=a!' kubectl get configmap a -o 'go-template={{.metadata.name}}!'
check "get: custom columns" '~^NAME +K$' kubectl get configmap a -o custom-columns=NAME:.metadata.name,K:.data.k
check "get: custom columns row" '~^a +v$' kubectl get configmap a -o custom-columns=NAME:.metadata.name,K:.data.k
check "get: show-labels" '~^lone .*run=lone$' kubectl get pod lone --show-labels
check "get: label columns" '~^NAME .*AGE +RUN$' kubectl get pod lone -L run
check "get: sorted" $'=a\nenv\nfv' bash -c 'kubectl get configmaps a env fv -o name --sort-by=.metadata.creationTimestamp | sed s,.*/,,'
check "get: several kinds" '~^configmap/a ' kubectl get configmap/a secret/s
check "get: all" 'deployment.apps/web' kubectl get all
check "get: all namespaces" '~^NAMESPACE +NAME ' kubectl get configmaps -A
check "get: short name" '=configmap/a' kubectl get cm a -o name
check "get: singular" '=deployment.apps/web' kubectl get deployment.apps web -o name
check "get: kind with version and group" '=deployment.apps/web' kubectl get deployments.v1.apps web -o name
fails "get: NotFound" '=Error from server (NotFound): configmaps "none" not found' kubectl get configmap none
check "get: ignore-not-found" '=' kubectl get configmap none --ignore-not-found
check "get: empty" "=No resources found in $ns namespace." kubectl get daemonsets
check "get: nodes" '!error' kubectl get nodes
check "get: the API's own service" '~^kubernetes +ClusterIP ' kubectl get service kubernetes -n default
check "get: subresource" '~replicas: 2' kubectl get deployment web --subresource=scale -o yaml
check "get: status subresource" 'kind: Deployment' kubectl get deployment web --subresource=status -o yaml

# Selectors.
kubectl create configmap red --from-literal=i=1 >&- && kubectl label configmap red color=red tier=front >&-
kubectl create configmap blue --from-literal=i=2 >&- && kubectl label configmap blue color=blue tier=front >&-
kubectl create configmap green >&- && kubectl label configmap green color=green >&-
select_names() { check "selector $1" "=$2" bash -c 'kubectl get configmaps -l "$1" -o name | sed s,.*/,, | paste -sd" "' - "$1"; }
select_names 'color=red' red
select_names 'color==red' red
select_names 'color!=red,color' 'blue green'
select_names 'color in (red, blue)' 'blue red'
select_names 'color notin (red),tier' blue
select_names 'tier' 'blue red'
select_names 'color,!tier' green
fails "selector that cannot be read" 'unable to parse' kubectl get configmaps -l 'a in ('
check "field selector: name" '=configmap/red' kubectl get configmaps --field-selector metadata.name=red -o name
check "field selector: phase" '=pod/lone' kubectl get pods --field-selector status.phase=Pending,metadata.name=lone -o name
check "field selector: node" '=pod/lone' kubectl get pods --field-selector 'spec.nodeName=,metadata.name=lone' -o name
fails "field selector that is not served" 'field label not supported: data.i' kubectl get configmaps --field-selector data.i=1

# Pages.
check "pages: all of them" '=blue red' bash -c 'kubectl get configmaps -l tier --chunk-size=1 -o name | sed s,.*/,, | paste -sd" "'
page=$(kubectl get --raw "/api/v1/namespaces/$ns/configmaps?limit=1&labelSelector=color")
check "pages: the first" '=blue' jq -r '.items[].metadata.name' <<<"$page"
check "pages: a token" '~^[A-Za-z0-9_=-]{10,}$' jq -r .metadata.continue <<<"$page"
token=$(jq -r '.metadata.continue | @uri' <<<"$page")
check "pages: the second" '=green' \
  bash -c 'kubectl get --raw "$1" | jq -r .items[].metadata.name' - "/api/v1/namespaces/$ns/configmaps?limit=1&labelSelector=color&continue=$token"
fails "pages: a forged token" 'BadRequest' kubectl get --raw "/api/v1/namespaces/$ns/configmaps?limit=1&continue=forged" -v=8

# Watch.
kubectl get configmaps --watch --output-watch-events -l watched >watch.txt 2>&1 &
background+=($!)
kubectl get configmaps --watch-only -l watched >table.txt 2>&1 &
background+=($!)
# Nothing tells when the second watch, which shows only what comes, has begun: so create until it shows something.
printf '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "probe-", "labels": {"watched": "yes"}}}' >probe.json
eventually "watch: only what comes" '~^probe-' bash -c 'kubectl create -f probe.json >&- && cat table.txt'
check "watch: create" '=configmap/watched created' kubectl create -f - <<<'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "watched", "labels": {"watched": "yes"}}}'
eventually "watch: added" '~^ADDED +watched ' cat watch.txt
check "watch: change" '=configmap/watched patched' kubectl patch configmap watched -p '{"data": {"a": "b"}}'
eventually "watch: modified" '~^MODIFIED +watched ' cat watch.txt
check "watch: leaves the selection" '=configmap/watched unlabeled' kubectl label configmap watched watched-
eventually "watch: deleted" '~^DELETED +watched ' cat watch.txt
eventually "watch: tables" '~^watched +1 ' cat table.txt
