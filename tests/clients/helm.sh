#!/usr/bin/env bash
# helm.sh HELM KUBECTL: a release through its life, with the chart beside this file.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=check.sh
source "$here/check.sh"
helm=$1 kubectl=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HELM_CACHE_HOME=$work/cache HELM_CONFIG_HOME=$work/config HELM_DATA_HOME=$work/data
ns=helm-$$
chart=$here/chart
h=("$helm" --namespace "$ns")
k=("$kubectl" --namespace "$ns")
message='jsonpath={.data.message} {.data.revision}'

check "helm install" '~STATUS: deployed' "${h[@]}" install r "$chart" --create-namespace
check "installed: values" '=hello 1' "${k[@]}" get configmap r -o "$message"
check "installed: the server's version" '~^v1\.37\.' "${k[@]}" get configmap r -o 'jsonpath={.data.version}'
check "installed: owned by helm" '=Helm r' "${k[@]}" get service r -o \
  'jsonpath={.metadata.labels.app\.kubernetes\.io/managed-by} {.metadata.annotations.meta\.helm\.sh/release-name}'
check "installed: custom resource" '=11' "${k[@]}" get gear r -o 'jsonpath={.spec.teeth}'
fails "install again" '~cannot re-?use a name that is still in use' "${h[@]}" install r "$chart"
check "helm list" '~^r\s+'"$ns"'\s+1\s.*deployed' "${h[@]}" list
check "helm upgrade" '~REVISION: 2' "${h[@]}" upgrade r "$chart" --set message=bye,replicas=3
check "upgraded: values" '=bye 2' "${k[@]}" get configmap r -o "$message"
check "upgraded: replicas" '=3' "${k[@]}" get deployment r -o 'jsonpath={.spec.replicas}'
check "upgraded: custom resource" '=13' "${k[@]}" get gear r -o 'jsonpath={.spec.teeth}'
check "helm upgrade: what others changed in between stays" '=yes' \
  bash -c '"$1" -n "$3" label configmap r extra=yes >&- && "$2" -n "$3" upgrade r "$4" --set replicas=3,message=bye >&- &&
    "$1" -n "$3" get configmap r -o "jsonpath={.metadata.labels.extra}"' - "$kubectl" "$helm" "$ns" "$chart"
fails "helm upgrade: refused" 'greater than or equal to 3' "${h[@]}" upgrade r "$chart" --set replicas=-9
check "helm history" '~failed' "${h[@]}" history r
check "helm rollback" 'Rollback was a success' "${h[@]}" rollback r 1
check "rolled back: values" '=hello 1' "${k[@]}" get configmap r -o "$message"
check "rolled back: replicas" '=1' "${k[@]}" get deployment r -o 'jsonpath={.spec.replicas}'
check "helm status" '~STATUS: deployed' "${h[@]}" status r
check "helm get manifest" 'kind: Gear' "${h[@]}" get manifest r
check "helm upgrade, dry run on the server" 'hidden' "${h[@]}" upgrade r "$chart" --dry-run=server --set message=hidden
check "dry run wrote nothing" '=hello 1' "${k[@]}" get configmap r -o "$message"
check "helm template with lookups" 'kind: Deployment' "${h[@]}" template r "$chart" --validate
check "helm uninstall" '=release "r" uninstalled' "${h[@]}" uninstall r
eventually "uninstalled" '=' "${k[@]}" get configmap,deployment,service,gear -l app.kubernetes.io/managed-by=Helm -o name
check "helm keeps definitions" 'gears' "${k[@]}" get crd gears.chart.example.com -o name
check "clean up" 'deleted' "${k[@]}" delete crd gears.chart.example.com
"$kubectl" delete namespace "$ns" --wait=false >/dev/null 2>&1
finish
