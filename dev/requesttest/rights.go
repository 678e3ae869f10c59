package requesttest

// Rights are what the chart adds for the controller to the rights of a provider that has its own, such as deploy.MetalRBAC: for the
// manager's ServiceAccount, as a stream of YAML documents that goes behind those.
const Rights = `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: serving-certificates}
rules:
- {apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests], verbs: [list, watch]}
- {apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests/approval], verbs: [patch]}
- {apiGroups: [certificates.k8s.io], resources: [signers], resourceNames: [kubernetes.io/kubelet-serving], verbs: [approve]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: serving-certificates}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: serving-certificates}
subjects: [{kind: ServiceAccount, namespace: kube-system, name: cloud-controller-manager}]
`
