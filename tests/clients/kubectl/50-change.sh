# edit, patch, replace, label, annotate, scale, set, rollout, delete, wait.

cat >edit.sh <<'S'
#!/bin/sh
sed -i "$EDIT" "$1"
S
chmod +x edit.sh
check "edit" '=configmap/a edited' env EDITOR="$work/edit.sh" EDIT='s/k: v$/k: edited/' kubectl edit configmap a
check "edit: done" '=edited' kubectl get configmap a -o 'jsonpath={.data.k}'
check "edit: no change" '=Edit cancelled, no changes made.' env EDITOR="$work/edit.sh" EDIT= kubectl edit configmap a
fails "edit: invalid" 'is invalid' env EDITOR="$work/edit.sh" EDIT='s/replicas: 2/replicas: -2/' kubectl edit deployment web

check "patch: merge" '=configmap/a patched' kubectl patch configmap a --type=merge -p '{"data": {"m": "1", "k": null}}'
check "patch: merge, done" '=1.' kubectl get configmap a -o 'jsonpath={.data.m}.{.data.k}'
check "patch: no change" '=configmap/a patched (no change)' kubectl patch configmap a --type=merge -p '{"data": {"m": "1"}}'
check "patch: JSON" '=configmap/a patched' kubectl patch configmap a --type=json -p '[{"op": "test", "path": "/data/m", "value": "1"}, {"op": "replace", "path": "/data/m", "value": "2"}]'
check "patch: JSON, done" '=2' kubectl get configmap a -o 'jsonpath={.data.m}'
fails "patch: JSON, test fails" '~Error from server|The request is invalid' kubectl patch configmap a --type=json -p '[{"op": "test", "path": "/data/m", "value": "no"}]'
check "patch: strategic" '=deployment.apps/web patched' kubectl patch deployment web -p '{"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "img:1"}]}}}}'
check "patch: strategic, merged by name" '=side img' kubectl get deployment web -o 'jsonpath={.spec.template.spec.containers[*].name}'
check "patch: strategic, delete directive" '=img' bash -c \
  'kubectl patch deployment web -p "{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"side\",\"\$patch\":\"delete\"}]}}}}" >&- &&
   kubectl get deployment web -o "jsonpath={.spec.template.spec.containers[*].name}"'
check "patch: status" '=deployment.apps/web patched' kubectl patch deployment web --subresource=status --type=merge -p '{"status": {"conditions": [{"type": "Odd", "status": "True"}]}}'
check "patch: scale" '=deployment.autoscaling/web patched' bash -c \
  'kubectl patch deployment web --subresource=scale --type=merge -p "{\"spec\":{\"replicas\":4}}" | sed "s/^scale.autoscaling/deployment.autoscaling/; s,^deployment.apps/,deployment.autoscaling/,"'
check "patch: scale, done" '=4' kubectl get deployment web -o 'jsonpath={.spec.replicas}'
fails "patch: nobody there" 'NotFound' kubectl patch configmap none -p '{}'

check "replace" '=configmap/a replaced' kubectl replace -f - <<<'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"r": "1"}}'
check "replace: done" '={"r":"1"}' kubectl get configmap a -o 'jsonpath={.data}'
fails "replace: nobody there" 'NotFound' kubectl replace -f - <<<'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "none"}}'
fails "replace: an old version" '=Error from server (Conflict): error when replacing "STDIN": Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the latest version and try again' \
  kubectl replace -f - <<<'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "1"}}'
check "replace: force" '~configmap/a replaced' kubectl replace --force -f - <<<'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"f": "1"}}'
check "immutable" '=configmap/a patched' kubectl patch configmap a --type=merge -p '{"immutable": true}'
fails "immutable: no more changes" 'data: Forbidden: field is immutable when `immutable` is set' kubectl patch configmap a --type=merge -p '{"data": {"x": "y"}}'

check "label" '=configmap/env labeled' kubectl label configmap env x=1
fails "label: overwrite needs asking" "error: 'x' already has a value (1), and --overwrite is false" kubectl label configmap env x=2
check "label: overwrite" '=configmap/env labeled' kubectl label configmap env x=2 --overwrite
check "label: remove" '=configmap/env unlabeled' kubectl label configmap env x-
check "label: all" 'configmap/env labeled' kubectl label configmaps --all everything=yes
fails "label: invalid" 'a valid label must be an empty string' kubectl label configmap env x='a b'
check "annotate" '=configmap/env annotated' kubectl annotate configmap env note='a b'
check "annotate: done" '=a b' kubectl get configmap env -o 'jsonpath={.metadata.annotations.note}'
check "annotate: remove" '=configmap/env annotated' kubectl annotate configmap env note-

check "scale" '=deployment.apps/web scaled' kubectl scale deployment web --replicas=3
check "scale: done" '=3' kubectl get deployment web -o 'jsonpath={.spec.replicas}'
check "scale: precondition holds" '=deployment.apps/web scaled' kubectl scale deployment web --current-replicas=3 --replicas=2
fails "scale: precondition fails" 'Expected replicas to be 7, was 2' kubectl scale deployment web --current-replicas=7 --replicas=1
fails "scale: invalid" 'Invalid value: -1' kubectl patch deployment web --subresource=scale --type=merge -p '{"spec": {"replicas": -1}}'
kubectl create deployment pods --image=img:1 >&-
for replicas in 3 1; do
  check "scale to $replicas" '=deployment.apps/pods scaled' kubectl scale deployment pods --replicas="$replicas"
  eventually "scale to $replicas: pods follow" "=$replicas" bash -c 'kubectl get pods -l app=pods -o name | grep -c .'
done

check "set image" '=deployment.apps/web image updated' kubectl set image deployment/web img=img:2
check "set env" '=deployment.apps/web env updated' kubectl set env deployment/web A=1
check "set resources" '=deployment.apps/web resource requirements updated' kubectl set resources deployment/web --requests=cpu=10m
check "set serviceaccount" '=deployment.apps/web serviceaccount updated' kubectl set serviceaccount deployment/web robot
check "set selector" '=service/plain selector updated' kubectl set selector service/plain app=other
check "set, all done" '=img:2 1 10m robot' kubectl get deployment web -o \
  'jsonpath={.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].env[0].value} {.spec.template.spec.containers[0].resources.requests.cpu} {.spec.template.spec.serviceAccountName}'

kubectl create deployment roll --image=img:1 >&-
eventually "rollout history: the first" '~^1 +<none>$' kubectl rollout history deployment roll
check "rollout: change the cause" '=deployment.apps/roll annotated' kubectl annotate deployment roll kubernetes.io/change-cause=new
check "rollout: change the image" '=deployment.apps/roll image updated' kubectl set image deployment/roll img=img:2
eventually "rollout history: the second" '~^2 +new$' kubectl rollout history deployment roll
check "rollout history of a revision" 'img:1' kubectl rollout history deployment roll --revision=1
check "rollout undo" '=deployment.apps/roll rolled back' kubectl rollout undo deployment roll
check "rollout undo: done" '=img:1' kubectl get deployment roll -o 'jsonpath={.spec.template.spec.containers[0].image}'
eventually "rollout history: the first is the third now" '~^3 +' kubectl rollout history deployment roll
fails "rollout undo: no such revision" 'unable to find specified revision 1 in history' kubectl rollout undo deployment roll --to-revision=1
check "rollout pause" '=deployment.apps/web paused' kubectl rollout pause deployment web
check "rollout resume" '=deployment.apps/web resumed' kubectl rollout resume deployment web
check "rollout restart" '=deployment.apps/web restarted' kubectl rollout restart deployment web
fails "rollout status: not yet" 'Waiting for deployment "web" rollout to finish' kubectl rollout status deployment web --timeout=1s
# Without nodes somebody has to say that the pods are ready.
eventually "rollout status" 'deployment "web" successfully rolled out' bash -c '
  for pod in $(kubectl get pods -l app=web -o name); do
    kubectl patch "$pod" --subresource=status --type=merge -p "{\"status\":{\"phase\":\"Running\",\"conditions\":[
      {\"type\":\"Ready\",\"status\":\"True\",\"lastTransitionTime\":\"2020-01-01T00:00:00Z\"}]}}" >&-
  done; kubectl rollout status deployment web --timeout=1s'
check "get: a ready pod's deployment" '~^web +2/2 +2 +2 ' kubectl get deployment web

check "describe configmap" '~^Name: +env$' kubectl describe configmap env
check "describe deployment" '~^StrategyType: +RollingUpdate$' kubectl describe deployment web
check "describe pod" '~^Status: +Pending$' kubectl describe pod lone
check "describe service" '~^IP: +[0-9.]+$' kubectl describe service web
check "describe namespace" '~^Status: +Active$' kubectl describe namespace "$ns"
check "describe secret hides" '~^password: +7 bytes$' kubectl describe secret s
check "describe quota" '~^Resource +Used +Hard$' kubectl describe quota q
check "events" 'ScalingReplicaSet' kubectl events --for deployment/web
check "get events" 'SuccessfulCreate' kubectl get events
check "get events: one kind" 'ScalingReplicaSet' kubectl get events --field-selector involvedObject.kind=Deployment

check "wait: a condition" '=deployment.apps/web condition met' kubectl wait --for=condition=Available deployment/web --timeout=10s
check "wait: a value" '=configmap/red condition met' kubectl wait --for='jsonpath={.data.i}'=1 configmap/red --timeout=10s
fails "wait: in vain" 'timed out waiting for the condition' kubectl wait --for=condition=Never pod/lone --timeout=1s
check "delete while another waits for it" '~^configmap "green" deleted' bash -c \
  'kubectl delete configmap green & kubectl wait --for=delete configmap/green --timeout=10s && wait $!'
fails "delete: nobody there" '=Error from server (NotFound): configmaps "green" not found' kubectl delete configmap green
check "delete: ignore-not-found" '=' kubectl delete configmap green --ignore-not-found
check "delete: by label" 'configmap "red" deleted' kubectl delete configmaps -l color
check "delete: several kinds" 'secret "s" deleted' kubectl delete configmap/env secret/s
check "delete: from a manifest" 'configmap "y1" deleted' kubectl delete -f - <<<'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "y1"}}'
check "delete: now" 'pod "lone" deleted' kubectl delete pod lone --now
check "delete: orphan" 'deployment.apps "app" deleted' kubectl delete deployment app --cascade=orphan
check "delete: orphaned" '~^replicaset.apps/app-' kubectl get replicasets -l app=app -o name
check "delete: orphaned, no owner" '=' kubectl get replicasets -l app=app -o 'jsonpath={.items[*].metadata.ownerReferences[*].kind}'
check "delete: foreground" 'replicaset.apps "app-' kubectl delete replicasets -l app=app --cascade=foreground
check "delete: foreground, pods went first" '=' kubectl get pods -l app=app -o name
check "delete: background" 'deployment.apps "web" deleted' kubectl delete deployment web --cascade=background
eventually "delete: background, pods go" '=' kubectl get pods -l app=web -o name
