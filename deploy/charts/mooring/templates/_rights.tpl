{{/* Which controllers run, by --controllers: "*", NAME and -NAME, by the names of now and those of the reference of old. With that flag
     in extraArgs, all do that are on by default: it is read here only for the names of the others. */}}
{{- define "mooring.controllers" -}}
{{- $listed := .Values.controllers | default (list "*") }}
{{- range .Values.extraArgs }}{{ if hasPrefix "--controllers" . }}{{ $listed = list "*" }}{{ end }}{{ end }}
{{- $names := dict
  "node" (list "cloud-node-controller" "cloud-node")
  "lifecycle" (list "cloud-node-lifecycle-controller" "cloud-node-lifecycle")
  "route" (list "node-route-controller" "route")
  "service" (list "service-lb-controller" "service") }}
{{- $serving := "kubelet-serving-certificate" }}
{{- $run := dict "serving" (has $serving $listed) }}
{{- range .Values.extraArgs }}{{ if regexMatch (printf "^--controllers=(.*,)?%s(,|$)" $serving) . }}{{ $_ := set $run "serving" true }}{{ end }}{{ end }}
{{- $_ := set $run "autoscaler" (or (has "cluster-autoscaler-provider" $listed) (not (empty .Values.autoscaler.existingSecret))) }}
{{- range .Values.extraArgs }}{{ if regexMatch "^--controllers=(.*,)?cluster-autoscaler-provider(,|$)" . }}{{ $_ := set $run "autoscaler" true }}{{ end }}{{ end }}
{{- range $controller, $aliases := $names }}
{{- $runs := has "*" $listed }}
{{- range $aliases }}
{{- if has . $listed }}{{ $runs = true }}{{ else if has (printf "-%s" .) $listed }}{{ $runs = false }}{{ end }}
{{- end }}
{{- $_ := set $run $controller $runs }}
{{- end }}
{{- toYaml $run }}
{{- end }}

{{/* --controllers as it is given: with the autoscaler's Secret the controller that serves it runs, too. */}}
{{- define "mooring.listedControllers" -}}
{{- $listed := .Values.controllers }}
{{- if and .Values.autoscaler.existingSecret (not (has "cluster-autoscaler-provider" $listed)) }}
{{- $listed = append ($listed | default (list "*")) "cluster-autoscaler-provider" }}
{{- end }}
{{- join "," $listed }}
{{- end }}

{{/* What a controller writes, as rules: of a dict with updateNodes (and their status), patchNodes, deleteNodes, patchNodeStatus,
     patchServiceStatus and approveServing. */}}
{{- define "mooring.writes" -}}
{{- if or .patchNodes .deleteNodes }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [{{ if .updateNodes }}update, {{ end }}{{ if .patchNodes }}patch{{ end }}{{ if and .patchNodes .deleteNodes }}, {{ end }}{{ if .deleteNodes }}delete{{ end }}]
{{- end }}
{{- if .patchNodeStatus }}
- apiGroups: [""]
  resources: [nodes/status]
  verbs: [{{ if .updateNodes }}update, {{ end }}patch]
{{- end }}
{{- if .patchServiceStatus }}
- apiGroups: [""]
  resources: [services/status]
  verbs: [patch]
{{- end }}
{{- if .approveServing }}
- apiGroups: [certificates.k8s.io]
  resources: [certificatesigningrequests/approval]
  verbs: [patch]
- apiGroups: [certificates.k8s.io]
  resources: [signers]
  resourceNames: [kubernetes.io/kubelet-serving]
  verbs: [approve]
{{- end }}
{{- end }}

{{/* Begins the names of the ServiceAccounts that controllers act as; empty where they are those of the reference, or the manager's. */}}
{{- define "mooring.accountPrefix" -}}
{{- if and .Values.rbac.separateIdentities (not .Values.rbac.referenceIdentities) }}{{ .Values.serviceAccount.name }}-{{ end }}
{{- end }}

{{/* What the controllers act as with identities of their own: by the name of each client, without the prefix, the rules of it. Those of
     the reference are bound to roles by Kubernetes. */}}
{{- define "mooring.identities" -}}
{{- $run := include "mooring.controllers" . | fromYaml }}
{{- $identities := dict }}
{{- if or $run.node $run.lifecycle }}
{{- $_ := set $identities "node-controller" (include "mooring.writes" (dict "updateNodes" $run.node "patchNodes" true "deleteNodes" $run.lifecycle "patchNodeStatus" true) | fromYamlArray) }}
{{- end }}
{{- if $run.route }}
{{- $_ := set $identities "route-controller" (include "mooring.writes" (dict "patchNodeStatus" true) | fromYamlArray) }}
{{- end }}
{{- if $run.service }}
{{- $_ := set $identities "service-controller" (include "mooring.writes" (dict "patchServiceStatus" true) | fromYamlArray) }}
{{- end }}
{{- if $run.serving }}
{{- $_ := set $identities "kubelet-serving-certificate" (include "mooring.writes" (dict "approveServing" true) | fromYamlArray) }}
{{- end }}
{{- if $run.autoscaler }}
{{- $_ := set $identities "cluster-autoscaler-provider" (include "mooring.writes" (dict "patchNodes" true) | fromYamlArray) }}
{{- end }}
{{- range .Values.rbac.extraIdentities }}
{{- $_ := set $identities .name .rules }}
{{- end }}
{{- toYaml $identities }}
{{- end }}
