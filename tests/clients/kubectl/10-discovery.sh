# What the server is and serves.

check "version" '~Server Version: v1\.37\.' kubectl version
check "version as JSON" '~"minor": "37' kubectl version -o json
check "cluster-info" 'Kubernetes control plane' kubectl cluster-info
check "raw readyz" '=ok' kubectl get --raw /readyz
check "raw livez, verbose" 'livez check passed' kubectl get --raw '/livez?verbose'
check "raw API group" '"preferredVersion"' kubectl get --raw /apis/apps
fails "raw path that is not there" 'Error from server (NotFound): the server could not find the requested resource' \
  kubectl get --raw /apis/nothing.example.com
for version in v1 apps/v1 batch/v1 autoscaling/v2 networking.k8s.io/v1 policy/v1 rbac.authorization.k8s.io/v1 \
  storage.k8s.io/v1 coordination.k8s.io/v1 events.k8s.io/v1 apiextensions.k8s.io/v1 certificates.k8s.io/v1; do
  check "api-versions has $version" "~^$version\$" kubectl api-versions
done
check "api-resources of a group" $'=controllerrevisions.apps\ndaemonsets.apps\ndeployments.apps\nreplicasets.apps\nstatefulsets.apps' \
  kubectl api-resources --api-group=apps -o name
check "api-resources: short names and kind" '~^deployments +deploy +apps/v1 +true +Deployment$' kubectl api-resources
check "api-resources without namespace" '~^nodes +no +v1 +false +Node$' kubectl api-resources --namespaced=false
check "api-resources without namespace: no pods" '!^pods ' kubectl api-resources --namespaced=false
check "api-resources: verbs" '~^configmaps.*create,delete,deletecollection,get,list,patch,update,watch' kubectl api-resources -o wide
check "api-resources: categories" '~^deployments.*apps' kubectl api-resources --categories=all
fails "a resource that is not there" 'error: the server doesn'"'"'t have a resource type "unicorns"' kubectl get unicorns
