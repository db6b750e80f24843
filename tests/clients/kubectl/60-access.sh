# Who may do what: auth, tokens, impersonation, certificates.

robot="system:serviceaccount:$ns:robot"
check "auth can-i" '=yes' kubectl auth can-i create configmaps
check "auth can-i as another" '=yes' kubectl auth can-i list configmaps --as="$robot"
fails "auth can-i as another: no" '=no' kubectl auth can-i delete configmaps --as="$robot"
check "auth can-i: list" '~^configmaps .*\[get list\]' kubectl auth can-i --list --as="$robot"
check "auth can-i: a path" '=yes' kubectl auth can-i get /version --as="$robot"
check "auth whoami" 'kubernetes-admin' kubectl auth whoami
check "auth whoami as another" "~^Username +$robot\$" kubectl auth whoami --as="$robot"
fails "forbidden" "=Error from server (Forbidden): secrets is forbidden: User \"$robot\" cannot list resource \"secrets\" in API group \"\" in the namespace \"$ns\"" \
  kubectl get secrets --as="$robot"
fails "forbidden: one object" "=Error from server (Forbidden): nodes \"n\" is forbidden: User \"nobody\" cannot get resource \"nodes\" in API group \"\" at the cluster scope" \
  kubectl get node n --as=nobody
check "create token" '~^eyJ[^.]+\.[^.]+\.[^.]+$' kubectl create token robot
token=$(kubectl create token robot --duration=10m)
as_token=(kubectl --kubeconfig="$work/token-kubeconfig" --token="$token")
server=$(kubectl config view --raw -o 'jsonpath={.clusters[0].cluster.server}')
kubectl config view --raw -o 'jsonpath={.clusters[0].cluster.certificate-authority-data}' | base64 -d >ca.pem
kubectl --kubeconfig="$work/token-kubeconfig" config set-cluster c --server="$server" --certificate-authority=ca.pem >&-
kubectl --kubeconfig="$work/token-kubeconfig" config set-context c --cluster=c --namespace="$ns" >&-
kubectl --kubeconfig="$work/token-kubeconfig" config use-context c >&-
check "token: whoami" "$robot" "${as_token[@]}" auth whoami
check "token: allowed" 'configmap/' "${as_token[@]}" get configmaps -o name
fails "token: not allowed" 'is forbidden: User' "${as_token[@]}" create configmap x
fails "token: wrong" 'error: You must be logged in to the server (Unauthorized)' \
  kubectl --kubeconfig="$work/token-kubeconfig" --token="${token%??????}AAAAAA" get configmaps
fails "a role is made by nobody without the right" 'is forbidden: User' kubectl create role all --verb=get --resource=pods --as="$robot"
check "create a role to make roles" '=role.rbac.authorization.k8s.io/granter created' kubectl create role granter --verb=create --resource=roles.rbac.authorization.k8s.io
check "bind it" '=rolebinding.rbac.authorization.k8s.io/granter created' kubectl create rolebinding granter --role=granter --serviceaccount="$ns:robot"
check "who may make roles makes one he holds" '=role.rbac.authorization.k8s.io/less created' kubectl create role less --verb=get --resource=configmaps --as="$robot"
fails "escalation" 'is attempting to grant RBAC permissions not currently held:
{APIGroups:[""], Resources:["pods"], Verbs:["get"]}' kubectl create role more --verb=get --resource=pods --as="$robot"
check "auth reconcile" 'rbac.authorization.k8s.io/reader reconciled' kubectl auth reconcile -f - <<Y
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: $ns}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}]
Y

if command -v openssl >/dev/null; then
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -subj "/O=dev/CN=$ns" -out csr.pem 2>/dev/null
  check "certificate request" "=certificatesigningrequest.certificates.k8s.io/$ns created" kubectl create -f - <<Y
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: $ns}
spec:
  request: $(base64 -w0 csr.pem)
  signerName: kubernetes.io/kube-apiserver-client
  usages: [client auth]
Y
  check "certificate approve" "=certificatesigningrequest.certificates.k8s.io/$ns approved" kubectl certificate approve "$ns"
  check "certificate: who asks" '~kubernetes-admin' kubectl get csr "$ns"
  check "certificate: approved" '~Approved' kubectl get csr "$ns"
  check "certificate: delete" 'deleted' kubectl delete csr "$ns"
fi
check "delete cluster roles" 'deleted' kubectl delete clusterrole,clusterrolebinding,priorityclass "$ns"
