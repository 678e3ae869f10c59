{{- define "mooring.chartName" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "mooring.name" -}}
{{- $name := include "mooring.chartName" . }}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}{{ else if contains $name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "mooring.selector" -}}
app.kubernetes.io/name: {{ include "mooring.chartName" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "mooring.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{ include "mooring.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: cloud-controller-manager
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "mooring.image" -}}
{{- if not .Values.image.repository }}{{ fail "image.repository: required, because no image is published: build one with `make image` or `mooring build --image`, push it to a registry that your nodes reach, and name it here" }}{{ end }}
{{- if .Values.image.digest }}{{ printf "%s@%s" .Values.image.repository .Values.image.digest }}{{ else }}{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}{{ end }}
{{- end }}

{{- define "mooring.hasConfig" -}}
{{- with .Values.provider.config }}{{ if and (not .watch) (or .inline .existingSecret .existingConfigMap) }}yes{{ end }}{{ end }}
{{- end }}

{{/* The object that the daemon reads and watches itself, as --cloud-config-object names it, and the resource of it and its name. */}}
{{- define "mooring.configObject" -}}
{{- with .Values.provider.config }}
{{- if .watch }}
{{- $kind := "secret" }}{{ if or .existingConfigMap (and .inline (eq .kind "ConfigMap")) }}{{ $kind = "configmap" }}{{ end }}
{{- $name := .existingConfigMap | default .existingSecret | default (printf "%s-cloud-config" (include "mooring.name" $)) }}
{{- dict "resource" (printf "%ss" $kind) "name" $name "flag" (printf "%s/%s/%s/%s" $kind $.Release.Namespace $name .key) | toYaml }}
{{- end }}
{{- end }}
{{- end }}

{{/* Layer 2 takes raw sockets. Kubernetes gives a capability to no user but root: it sets no ambient ones. */}}
{{- define "mooring.securityContext" -}}
{{- $context := deepCopy .Values.securityContext }}
{{- if .Values.provider.metal.l2 }}
{{- $capabilities := $context.capabilities | default dict }}
{{- $_ := set $capabilities "add" (append ($capabilities.add | default list) "NET_RAW" | uniq) }}
{{- $_ := mergeOverwrite $context (dict "runAsUser" 0 "runAsNonRoot" false "capabilities" $capabilities) }}
{{- end }}
{{- toYaml $context }}
{{- end }}

{{/* The Secret with the certificate of the secure port; empty if the daemon makes one for itself. */}}
{{- define "mooring.servingSecret" -}}
{{- with .Values.servingCertificate }}{{ if .existingSecret }}{{ .existingSecret }}{{ else if .certManager.enabled }}{{ include "mooring.name" $ }}-serving{{ end }}{{ end }}
{{- end }}

{{/* The name in that certificate: the headless Service of metrics. */}}
{{- define "mooring.servingName" -}}
{{ include "mooring.name" . }}-metrics.{{ .Release.Namespace }}.svc
{{- end }}

{{- define "mooring.scrapeTLS" -}}
{{- if .Values.serviceMonitor.tlsConfig }}
{{- toYaml .Values.serviceMonitor.tlsConfig }}
{{- else if .Values.serviceMonitor.insecureSkipVerify }}
insecureSkipVerify: true
{{- else }}
serverName: {{ include "mooring.servingName" . }}
ca:
  secret:
    name: {{ include "mooring.servingSecret" . }}
    key: ca.crt
{{- end }}
{{- end }}

{{- define "mooring.minReadySeconds" -}}
{{- if not (kindIs "invalid" .Values.minReadySeconds) }}{{ .Values.minReadySeconds }}{{ else if eq .Values.provider.name "metal" }}10{{ end }}
{{- end }}

{{- define "mooring.hasBudget" -}}
{{- $given := .Values.podDisruptionBudget.enabled }}
{{- if kindIs "invalid" $given }}{{ if and (eq .Values.provider.name "metal") (eq .Values.kind "Deployment") }}yes{{ end }}{{ else if $given }}yes{{ end }}
{{- end }}

{{- define "mooring.checks" -}}
{{- if not .Values.provider.name }}{{ fail "provider.name: required: the name that the provider has registered, as in --cloud-provider, such as openstack or metal" }}{{ end }}
{{- if .Values.serviceAccount.create }}
{{- $account := lookup "v1" "ServiceAccount" .Release.Namespace .Values.serviceAccount.name }}
{{- if and $account (ne (dig "metadata" "annotations" "meta.helm.sh/release-name" "" $account) .Release.Name) }}{{ fail (printf "serviceAccount.name: the ServiceAccount %s exists and is not this release's: set serviceAccount.create=false to use it, or give another name" .Values.serviceAccount.name) }}{{ end }}
{{- end }}
{{- $sources := 0 }}
{{- range list .Values.provider.config.inline .Values.provider.config.existingSecret .Values.provider.config.existingConfigMap }}{{ if . }}{{ $sources = add1 $sources }}{{ end }}{{ end }}
{{- if gt (int $sources) 1 }}{{ fail "provider.config: give one of inline, existingSecret and existingConfigMap, not several" }}{{ end }}
{{- if and .Values.provider.config.watch (eq (int $sources) 0) }}{{ fail "provider.config.watch: give one of inline, existingSecret and existingConfigMap, which is watched" }}{{ end }}
{{- if and .Values.configureCloudRoutes (not .Values.clusterCIDR) }}{{ fail "clusterCIDR: required with configureCloudRoutes: only routes within it are removed" }}{{ end }}
{{- if and .Values.allocateNodeCIDRs (not .Values.clusterCIDR) }}{{ fail "clusterCIDR: required with allocateNodeCIDRs" }}{{ end }}
{{- if ne (empty .Values.apiServer.host) (empty .Values.apiServer.port) }}{{ fail "apiServer: host and port go together" }}{{ end }}
{{- if eq (toString .Values.rollingUpdate.maxUnavailable) "0" }}
{{- if eq .Values.kind "DaemonSet" }}{{ fail "rollingUpdate.maxUnavailable: cannot be 0 with kind=DaemonSet, because the new Pod of a node needs the port of the old one" }}{{ end }}
{{- if eq (toString .Values.rollingUpdate.maxSurge) "0" }}{{ fail "rollingUpdate: maxSurge and maxUnavailable cannot both be 0" }}{{ end }}
{{- end }}
{{- if and (not .Values.rbac.separateIdentities) (or .Values.rbac.referenceIdentities .Values.rbac.extraIdentities) }}{{ fail "rbac.referenceIdentities and rbac.extraIdentities: are for rbac.separateIdentities=true" }}{{ end }}
{{- $serving := .Values.servingCertificate }}
{{- if and $serving.existingSecret $serving.certManager.enabled }}{{ fail "servingCertificate: give existingSecret or certManager, not both" }}{{ end }}
{{- if and $serving.certManager.enabled (not $serving.certManager.issuerRef) }}{{ fail "servingCertificate.certManager.issuerRef: required" }}{{ end }}
{{- if .Values.autoscaler.existingSecret }}
{{- range .Values.extraArgs }}{{ if hasPrefix "--controllers" . }}{{ fail "autoscaler.existingSecret: give controllers in place of --controllers in extraArgs, because both count" }}{{ end }}{{ end }}
{{- if eq (int .Values.autoscaler.port) (int .Values.securePort) }}{{ fail "autoscaler.port: is securePort, too" }}{{ end }}
{{- end }}
{{- $monitor := .Values.serviceMonitor }}
{{- if and $monitor.enabled (not (or $monitor.tlsConfig $monitor.insecureSkipVerify (include "mooring.servingSecret" .))) }}{{ fail "serviceMonitor: needs servingCertificate.existingSecret or servingCertificate.certManager, which Prometheus verifies; or serviceMonitor.tlsConfig; or serviceMonitor.insecureSkipVerify=true" }}{{ end }}
{{- if and .Values.networkPolicy.enabled .Values.hostNetwork }}{{ fail "networkPolicy: needs hostNetwork=false, because no policy selects pods with the network of their node" }}{{ end }}
{{- $metal := eq .Values.provider.name "metal" }}
{{- if and .Values.provider.metal.l2 (not $metal) }}{{ fail "provider.metal.l2: is for provider.name=metal" }}{{ end }}
{{- if and .Values.provider.metal.configSource (not $metal) }}{{ fail "provider.metal.configSource: is for provider.name=metal" }}{{ end }}
{{- if and .Values.provider.metal.nodeGroups (not $metal) }}{{ fail "provider.metal.nodeGroups: is for provider.name=metal" }}{{ end }}
{{- if and .Values.provider.metal.l2 (not .Values.hostNetwork) }}{{ fail "provider.metal.l2: needs hostNetwork=true, because the addresses are answered for on the networks of the node" }}{{ end }}
{{- if and $metal (not .Values.provider.metal.l2) (hasKey (fromYaml .Values.provider.config.inline) "l2") }}{{ fail "provider.config.inline has a section l2: set provider.metal.l2=true, which gives the pod what that takes" }}{{ end }}
{{- end }}

{{- define "mooring.affinity" -}}
{{- $affinity := .Values.affinity | default dict }}
{{- if and (not .Values.nodeSelector) (not $affinity.nodeAffinity) }}
# By the presence of the label: kubeadm sets it to "", k3s and RKE2 to "true".
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
    - matchExpressions:
      - key: node-role.kubernetes.io/control-plane
        operator: Exists
{{- end }}
{{- if not $affinity.podAntiAffinity }}
# The port is the node's.
podAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
  - topologyKey: kubernetes.io/hostname
    labelSelector:
      matchLabels:
        {{- include "mooring.selector" . | nindent 8 }}
{{- end }}
{{- with $affinity }}
{{ toYaml . }}
{{- end }}
{{- end }}
