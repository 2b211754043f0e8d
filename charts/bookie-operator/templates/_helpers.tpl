{{- define "bookie-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "bookie-operator.fullname" -}}
{{- $name := include "bookie-operator.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "bookie-operator.selector" -}}
app.kubernetes.io/name: {{ include "bookie-operator.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "bookie-operator.labels" -}}
{{ include "bookie-operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "bookie-operator.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "bookie-operator.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "bookie-operator.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- define "bookie-operator.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "bookie-operator.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* Where the operator may look and act: its rules, once for all namespaces or once for each. */ -}}
{{- define "bookie-operator.rules" -}}
- apiGroups: [bookkeeper.bookie-operator.dev]
  resources: [bookieclusters]
  verbs: [get, list, watch, patch]
- apiGroups: [bookkeeper.bookie-operator.dev]
  resources: [bookietasks]
  verbs: [get, list, watch, patch, delete]
- apiGroups: [bookkeeper.bookie-operator.dev]
  resources: [bookieclusters/status, bookietasks/status]
  verbs: [update]
# Exactly what it grants to the driver of a Spark repair: nobody may grant more than they have.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
{{- if .Values.rbac.nodes }}
# To write a bookie's rack, which is a label of its node, where the bookie reads it.
- apiGroups: [""]
  resources: [pods]
  verbs: [patch]
{{- end }}
{{- if .Values.rbac.logs }}
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
{{- end }}
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, delete]
{{- if .Values.rbac.secrets }}
# Certificates and keys of clusters with TLS, each by its name; it lists and watches none.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch]
{{- end }}
{{- if .Values.rbac.certManager }}
- apiGroups: [cert-manager.io]
  resources: [certificates]
  verbs: [get, list, create, patch, delete]
- apiGroups: [cert-manager.io]
  resources: [issuers]
  verbs: [get]
{{- end }}
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [events]
  verbs: [get, list, create, patch]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}

{{/* "true" where the API server judges decisions by an admission policy. */}}
{{- define "bookie-operator.decides" -}}
{{- if and .Values.decisions.enabled (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) }}true{{ end }}
{{- end }}

{{- /* The condition is True, or nobody knows any more whether it still is: silence ends no alarm.
       Series of an operator's pods differ in their labels, hence the comparison by cluster. */ -}}
{{- define "bookie-operator.lastKnownTrue" -}}
{{- $condition := printf "bookie_operator_condition{type=%q}" . -}}
max by (namespace, cluster, type) (max_over_time({{ $condition }}[1d])) == 1
and on (namespace, cluster) {{ $condition }} != 0
{{- end }}
