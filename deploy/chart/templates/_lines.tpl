{{- define "windlass.labels" -}}
{app.kubernetes.io/name: windlass, app.kubernetes.io/instance: "{{ .Release.Name }}", app.kubernetes.io/managed-by: "{{ .Release.Service }}"}
{{- end }}

{{- define "windlass.scheduler" -}}
{app.kubernetes.io/name: windlass, app.kubernetes.io/instance: "{{ .Release.Name }}", app.kubernetes.io/component: scheduler}
{{- end }}

{{- define "windlass.webhook" -}}
{app.kubernetes.io/name: windlass, app.kubernetes.io/instance: "{{ .Release.Name }}", app.kubernetes.io/component: webhook}
{{- end }}

{{- define "windlass.image" -}}
"{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
{{- end }}
