{{/* Names, labels and values that several templates need. */}}

{{- define "millrace.name" -}}
{{- if contains "millrace" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-millrace" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "millrace.brokerName" -}}{{ include "millrace.name" . }}-broker{{- end -}}

{{/* What selects the pods of a component. Takes the context and the component. */}}
{{- define "millrace.selector" -}}
app.kubernetes.io/name: millrace
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "millrace.labels" -}}
{{ include "millrace.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ printf "%s-%s" (index . 0).Chart.Name (index . 0).Chart.Version }}
{{- end -}}

{{/* Refuses options that the chart gives already. Takes where they are, the options, and names with | between them. */}}
{{- define "millrace.checkOptions" -}}
{{- $where := index . 0 -}}
{{- $given := printf "^--(%s)(=.*)?$" (index . 2) -}}
{{- range index . 1 -}}
{{- if regexMatch $given . -}}
{{- fail (printf "%s: the chart gives %s itself; set it by the chart's own value" $where (splitList "=" . | first)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* An image. Takes the context and an entry of `images`. */}}
{{- define "millrace.image" -}}
{{- $images := (index . 0).Values.images -}}
{{- $image := index . 1 -}}
{{- $name := printf "%s:%s" $image.repository ($image.tag | default (index . 0).Chart.AppVersion) -}}
{{- if $images.registry }}{{ trimSuffix "/" $images.registry }}/{{ end }}{{ $name }}
{{- end -}}

{{/* Deep merge in which also false, 0 and "" of the second map count. Takes two maps, gives JSON. */}}
{{- define "millrace.merge" -}}
{{- $out := deepCopy (index . 0) -}}
{{- range $key, $value := index . 1 -}}
{{- $old := get $out $key -}}
{{- if and (kindIs "map" $value) (kindIs "map" $old) -}}
{{- $_ := set $out $key (include "millrace.merge" (list $old $value) | fromJson) -}}
{{- else -}}
{{- $_ := set $out $key $value -}}
{{- end -}}
{{- end -}}
{{- toJson $out -}}
{{- end -}}

{{/* An engine with its defaults, as JSON. Takes the context and the name of the engine. */}}
{{- define "millrace.engine" -}}
{{- $root := index . 0 -}}
{{- include "millrace.merge" (list $root.Values.engineDefaults (get $root.Values.engines (index . 1))) -}}
{{- end -}}

{{/* The id of an engine's model in jobs. Takes the engine. */}}
{{- define "millrace.modelName" -}}
{{- .model.name | default (base .model.file | trimSuffix ".gguf") -}}
{{- end -}}

{{- define "millrace.brokerSecret" -}}
{{- if .Values.keys.make }}{{ include "millrace.name" . }}-broker-keys{{ else }}{{ .Values.keys.brokerSecret }}{{ end -}}
{{- end -}}
{{- define "millrace.engineSecret" -}}
{{- if .Values.keys.make }}{{ include "millrace.name" . }}-engine-key{{ else }}{{ .Values.keys.engineSecret }}{{ end -}}
{{- end -}}
{{- define "millrace.clientSecret" -}}{{ include "millrace.name" . }}-client-key{{- end -}}

{{/* Of a pod: the user of the images, who owns nothing but what its volumes give it. */}}
{{- define "millrace.podSecurity" -}}
runAsNonRoot: true
runAsUser: 990
runAsGroup: 990
fsGroup: 990
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}
{{- define "millrace.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "millrace.pullSecrets" -}}
{{- with .Values.images.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Where pods may run. Takes the broker or an engine. */}}
{{- define "millrace.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What a PromQL selector says of this release's targets. */}}
{{- define "millrace.target" -}}
namespace={{ .Release.Namespace | quote }},release={{ .Release.Name | quote }}
{{- end -}}
