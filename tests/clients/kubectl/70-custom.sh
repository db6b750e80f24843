# Custom resources: definition, validation, defaults, columns, scale, status.

group=$ns.example.com
# Two runs may share a server, so not even the plural is the same.
export gadgets=gadget$$s
check "crd: create" "=customresourcedefinition.apiextensions.k8s.io/$gadgets.$group created" kubectl create -f - <<Y
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: $gadgets.$group}
spec:
  group: $group
  scope: Namespaced
  names: {plural: $gadgets, singular: ${gadgets%s}, kind: Gadget, shortNames: [gd$$], categories: [cat$$]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size, labelSelectorPath: .status.selector}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Color, type: string, jsonPath: .spec.color, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        type: object
        description: A gadget is a thing.
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, minimum: 1, maximum: 9, description: How many.}
              color: {type: string, enum: [red, blue], default: red}
              name: {type: string, pattern: '^[a-z]+$', maxLength: 5}
              any: {type: object, x-kubernetes-preserve-unknown-fields: true}
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, value: {type: string}}}
          status: {type: object, properties: {size: {type: integer}, selector: {type: string}}}
Y
check "crd: established" 'condition met' kubectl wait --for=condition=Established "crd/$gadgets.$group" --timeout=10s
eventually "crd: discovered" "~^$gadgets +gd$$ +$group/v1 +true +Gadget" kubectl api-resources --api-group="$group"
gadget() { printf '{"apiVersion": "%s/v1", "kind": "Gadget", "metadata": {"name": "%s"}, "spec": %s}\n' "$group" "$1" "$2"; }
check "cr: create" "=gadget.$group/g created" kubectl create -f - < <(gadget g '{"size": 3}')
check "cr: default" '=red' kubectl get ${gadgets%s} g -o 'jsonpath={.spec.color}'
check "cr: columns" '~^NAME +SIZE +AGE$' kubectl get $gadgets
check "cr: row" '~^g +3 +[0-9]+s$' kubectl get $gadgets
check "cr: wide columns" '~^g +3 +red +[0-9]+s$' kubectl get $gadgets -o wide
check "cr: short name" "=gadget.$group/g" kubectl get "gd$$" -o name
check "cr: category" "=gadget.$group/g" kubectl get "cat$$" -o name
fails "cr: below the minimum" 'spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1' kubectl create -f - < <(gadget bad '{"size": 0}')
fails "cr: required" 'spec.size: Required value' kubectl create --validate=ignore -f - < <(gadget bad '{}')
fails "cr: enum" 'spec.color: Unsupported value: "pink": supported values: "red", "blue"' kubectl create -f - < <(gadget bad '{"size": 1, "color": "pink"}')
fails "cr: pattern" "spec.name in body should match '^[a-z]+\$'" kubectl create -f - < <(gadget bad '{"size": 1, "name": "A1"}')
fails "cr: type" 'spec.size in body must be of type integer: "string"' kubectl create --validate=ignore -f - < <(gadget bad '{"size": "x"}')
fails "cr: unknown field, strict" 'strict decoding error: unknown field "spec.zzz"' kubectl create --validate=strict -f - < <(gadget bad '{"size": 1, "zzz": 1}')
check "cr: unknown field, ignored and pruned" "=gadget.$group/p created" kubectl create --validate=ignore -f - < <(gadget p '{"size": 1, "zzz": 1, "any": {"kept": true}}')
check "cr: pruned" '={"any":{"kept":true},"color":"red","size":1}' kubectl get ${gadgets%s} p -o 'jsonpath={.spec}'
check "cr: scale" "=gadget.$group/g scaled" kubectl scale ${gadgets%s} g --replicas=5
check "cr: scaled" '=5' kubectl get ${gadgets%s} g -o 'jsonpath={.spec.size}'
check "cr: status" "=gadget.$group/g patched" kubectl patch ${gadgets%s} g --subresource=status --type=merge -p '{"status": {"size": 5}, "spec": {"size": 9}}'
check "cr: status leaves spec" '=5 5 2' kubectl get ${gadgets%s} g -o 'jsonpath={.spec.size} {.status.size} {.metadata.generation}'
check "cr: apply" "=gadget.$group/ap created" kubectl apply -f - < <(gadget ap '{"size": 1}')
check "cr: apply, unchanged" "=gadget.$group/ap unchanged" kubectl apply -f - < <(gadget ap '{"size": 1}')
check "cr: apply, configured" "=gadget.$group/ap configured" kubectl apply -f - < <(gadget ap '{"size": 2}')
check "cr: server-side apply" "=gadget.$group/sa serverside-applied" kubectl apply --server-side -f - < <(gadget sa '{"size": 1, "parts": [{"name": "a", "value": "1"}]}')
check "cr: server-side apply merges by key" '=a b' bash -c \
  'kubectl apply --server-side --field-manager=two -f - >&- && kubectl get ${gadgets%s} sa -o "jsonpath={.spec.parts[*].name}"' \
  < <(gadget sa '{"parts": [{"name": "b"}]}')
fails "cr: strategic merge is not offered" 'UnsupportedMediaType' \
  kubectl patch ${gadgets%s} g --type=strategic -p '{"spec": {"size": 1}}' -v=8
eventually "cr: explain" '~^ +size\s+<integer> -required-' kubectl explain ${gadgets%s}.spec
check "cr: explain a field" 'How many.' kubectl explain ${gadgets%s}.spec.size
check "cr: label" "=gadget.$group/g labeled" kubectl label ${gadgets%s} g x=y
check "cr: select" "=gadget.$group/g" kubectl get $gadgets -l x=y -o name
check "cr: describe" '~Size: +5' kubectl describe ${gadgets%s} g
check "cr: delete all" '~"ap" deleted' kubectl delete $gadgets --all
check "crd: columns" "~^$gadgets\." kubectl get crds
check "crd: delete" "customresourcedefinition.apiextensions.k8s.io \"$gadgets.$group\" deleted" kubectl delete crd "$gadgets.$group"
fails "crd: gone" 'the server doesn'"'"'t have a resource type' kubectl get "$gadgets.$group"
