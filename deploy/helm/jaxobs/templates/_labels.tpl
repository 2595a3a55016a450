{{- define "jaxobs.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "jaxobs.collectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-collector
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "jaxobs.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "jaxobs.nonRoot" -}}
runAsNonRoot: true
runAsUser: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}
