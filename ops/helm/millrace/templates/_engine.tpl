{{/* The pod of an engine. Takes the context, the component and the engine. */}}
{{- define "millrace.enginePod" -}}
{{- $root := index . 0 -}}
{{- $engine := index . 2 -}}
{{- $nvidia := eq $engine.device "nvidia" -}}
{{- $given := "model|model-name|broker|key|name|metrics|drain-timeout|log-level|log-json" -}}
{{- include "millrace.checkOptions" (list (printf "%s: options" (index . 1)) $engine.options $given) -}}
{{- $gpus := ternary (int64 $engine.gpus) 1 $nvidia -}}
{{- $divides := regexMatch "(^| )--(devices|pipeline)" (join " " $engine.options) -}}
{{- $each := and (gt $gpus 1) (not $divides) -}}
{{- $image := ternary $root.Values.images.engineNvidia $root.Values.images.engine $nvidia -}}
metadata:
  labels: {{- include "millrace.labels" (list $root (index . 1)) | nindent 4 }}
    millrace/part: engine
  {{- with $engine.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  automountServiceAccountToken: false
  securityContext: {{- include "millrace.podSecurity" $root | nindent 4 }}
  {{- include "millrace.pullSecrets" $root | nindent 2 }}
  {{- include "millrace.placement" $engine | nindent 2 }}
  {{- if and $nvidia $engine.runtimeClassName }}
  runtimeClassName: {{ $engine.runtimeClassName }}
  {{- end }}
  {{- /* SIGTERM drains the engine; then it gives back what it could not finish. */}}
  terminationGracePeriodSeconds: {{ add (int64 $engine.drainSeconds) 30 }}
  {{- if $engine.model.download }}
  initContainers:
    {{- include "millrace.download" . | nindent 4 }}
  {{- end }}
  containers:
    - name: engine
      image: {{ include "millrace.image" (list $root $image) }}
      imagePullPolicy: {{ $root.Values.images.pullPolicy }}
      command: [millrace-engine]
      args:
        - {{ printf "--model=/models/%s" $engine.model.file | quote }}
        - {{ printf "--model-name=%s" (include "millrace.modelName" $engine) | quote }}
        - --broker=tcp://{{ include "millrace.brokerName" $root }}:{{ $root.Values.broker.ports.engines }}
        - --key=/etc/millrace/key/engine.key
        - --name=$(POD_NAME)
        - --metrics=0.0.0.0:{{ int64 $engine.metricsPort }}
        - --drain-timeout={{ int64 $engine.drainSeconds }}
        {{- if $each }}
        - --devices=all
        {{- end }}
        - --log-level={{ $engine.logLevel }}
        {{- if $engine.logJson }}
        - --log-json
        {{- end }}
        {{- range $engine.options }}
        - {{ . | quote }}
        {{- end }}
      env:
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        - {name: XDG_CACHE_HOME, value: /var/cache/millrace}
        {{- with $engine.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {name: metrics, containerPort: {{ int64 $engine.metricsPort }}}
        {{- if $each }}
        {{- range $i := untilStep 1 (int $gpus) 1 }}
        - {name: metrics-{{ $i }}, containerPort: {{ add (int64 $engine.metricsPort) $i }}}
        {{- end }}
        {{- end }}
      {{- /* The page is there when the model is loaded and the device has computed a step. A hung device ends the
             engine by itself. */}}
      startupProbe:
        httpGet: {path: /metrics, port: metrics}
        periodSeconds: 5
        failureThreshold: {{ div (add (int64 $engine.startSeconds) 4) 5 }}
      readinessProbe:
        httpGet: {path: /metrics, port: metrics}
        periodSeconds: 10
        timeoutSeconds: 5
      livenessProbe:
        httpGet: {path: /metrics, port: metrics}
        periodSeconds: 30
        timeoutSeconds: 15
        failureThreshold: 6
      securityContext: {{- include "millrace.containerSecurity" $root | nindent 8 }}
      {{- $resources := deepCopy $engine.resources }}
      {{- if $nvidia }}
      {{- $limits := merge (dict "nvidia.com/gpu" $gpus) ($resources.limits | default dict) }}
      {{- $_ := set $resources "limits" $limits }}
      {{- end }}
      resources: {{- toYaml $resources | nindent 8 }}
      volumeMounts:
        - {name: models, mountPath: /models, readOnly: true}
        - {name: key, mountPath: /etc/millrace/key, readOnly: true}
        - {name: cache, mountPath: /var/cache/millrace}
        - {name: tmp, mountPath: /tmp}
        {{- with $engine.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: models
      {{- include "millrace.modelVolume" (list (index . 1) $engine.model) | nindent 6 }}
    - name: key
      secret: {secretName: {{ include "millrace.engineSecret" $root }}, defaultMode: 0440}
    - name: cache
      emptyDir: {sizeLimit: {{ $engine.cacheSize }}}
    - name: tmp
      emptyDir: {sizeLimit: 1Gi}
    {{- with $engine.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* Where the model's file lies. Takes the component and the model. */}}
{{- define "millrace.modelVolume" -}}
{{- $model := index . 1 -}}
{{- $places := len (compact (list $model.claim $model.hostPath $model.download)) -}}
{{- if ne $places 1 -}}
{{- fail (printf "%s: model: give one of `claim`, `hostPath` and `download`, where the file lies or comes from" (index . 0)) -}}
{{- end -}}
{{- if $model.claim }}
persistentVolumeClaim: {claimName: {{ $model.claim }}, readOnly: true}
{{- else if $model.hostPath }}
hostPath: {path: {{ $model.hostPath }}, type: Directory}
{{- else if $model.download.claim }}
persistentVolumeClaim: {claimName: {{ $model.download.claim }}}
{{- else }}
emptyDir: {sizeLimit: {{ $model.download.size | default "100Gi" }}}
{{- end }}
{{- end -}}

{{/* Brings the model's file and checks it; one that is there and was checked stays. */}}
{{- define "millrace.download" -}}
{{- $root := index . 0 -}}
{{- $download := (index . 2).model.download -}}
- name: download
  image: {{ $download.image | default "docker.io/curlimages/curl:8.16.0" }}
  imagePullPolicy: {{ $root.Values.images.pullPolicy }}
  command: [sh, -ceu]
  args:
    - |
      {{- $root.Files.Get "files/download.sh" | nindent 6 }}
  env:
    - {name: FILE, value: {{ printf "/models/%s" (index . 2).model.file | quote }}}
    - {name: URL, value: {{ $download.url | quote }}}
    - {name: SHA256, value: {{ $download.sha256 | quote }}}
    {{- with $download.tokenSecret }}
    - name: TOKEN
      valueFrom: {secretKeyRef: {name: {{ .name }}, key: {{ .key }}}}
    {{- end }}
  securityContext: {{- include "millrace.containerSecurity" $root | nindent 4 }}
  resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 256Mi}}
  volumeMounts:
    - {name: models, mountPath: /models}
    - {name: tmp, mountPath: /tmp}
{{- end -}}
