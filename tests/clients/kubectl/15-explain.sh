# explain, which reads the published OpenAPI documents.

check "explain" '~^KIND: +Pod$' kubectl explain pods
check "explain: version" '~^VERSION: +v1$' kubectl explain pods
check "explain: a field" '~^FIELD: containers ' kubectl explain pods.spec.containers
check "explain: a type" '~^ +replicas\s+<integer>' kubectl explain deployments.spec
check "explain: group" '~^GROUP: +apps$' kubectl explain deployments
check "explain: recursive" 'containerPort' kubectl explain deployments --recursive
check "explain: another version" '~^VERSION: +v1$' kubectl explain horizontalpodautoscalers --api-version=autoscaling/v1
fails "explain: no such field" 'field "nothing" does not exist' kubectl explain pods.spec.nothing
