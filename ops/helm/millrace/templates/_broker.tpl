{{/* The pod of a broker, for the StatefulSet and the Deployment. */}}
{{- define "millrace.brokerPod" -}}
{{- $broker := .Values.broker -}}
{{- $postgresql := $broker.ledger.postgresql -}}
{{- $sqlite := eq $broker.ledger.kind "sqlite" -}}
{{- $given := "ledger|listen|listen-engines|listen-doorbell|metrics|keys|http|http-timeout|http-allow-origin|http-cert|http-key|drain-wait-ms|tenant|log-level|log-json" -}}
{{- include "millrace.checkOptions" (list "broker.options" $broker.options $given) -}}
metadata:
  labels: {{- include "millrace.labels" (list . "broker") | nindent 4 }}
  {{- with $broker.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  automountServiceAccountToken: false
  securityContext: {{- include "millrace.podSecurity" . | nindent 4 }}
  {{- include "millrace.pullSecrets" . | nindent 2 }}
  {{- include "millrace.placement" $broker | nindent 2 }}
  {{- /* preStop, the drain, and time to close the ledger */}}
  terminationGracePeriodSeconds: {{ add 5 (int64 $broker.drainSeconds) 60 }}
  containers:
    - name: broker
      image: {{ include "millrace.image" (list . .Values.images.broker) }}
      imagePullPolicy: {{ .Values.images.pullPolicy }}
      command: [millrace-broker]
      args:
        {{- if $sqlite }}
        - --ledger=/var/lib/millrace/ledger
        {{- else }}
        - --ledger=$(MILLRACE_LEDGER)
        {{- end }}
        - --listen=tcp://0.0.0.0:{{ $broker.ports.clients }}
        - --listen-engines=tcp://0.0.0.0:{{ $broker.ports.engines }}
        - --listen-doorbell=tcp://0.0.0.0:{{ $broker.ports.doorbell }}
        - --metrics=0.0.0.0:{{ $broker.ports.metrics }}
        - --keys=/etc/millrace/keys
        {{- if .Values.http.enabled }}
        - --http=0.0.0.0:{{ $broker.ports.http }}
        - --http-timeout={{ .Values.http.timeout }}
        {{- with .Values.http.allowOrigins }}
        - --http-allow-origin={{ join "," . }}
        {{- end }}
        {{- if .Values.http.tlsSecret }}
        - --http-cert=/etc/millrace/tls/tls.crt
        - --http-key=/etc/millrace/tls/tls.key
        {{- end }}
        {{- end }}
        - --drain-wait-ms={{ mul 1000 (int64 $broker.drainSeconds) }}
        {{- range $broker.tenants }}
        - {{ printf "--tenant=%s" . | quote }}
        {{- end }}
        - --log-level={{ $broker.logLevel }}
        {{- if $broker.logJson }}
        - --log-json
        {{- end }}
        {{- range $broker.options }}
        - {{ . | quote }}
        {{- end }}
      {{- if or (not $sqlite) $broker.env }}
      env:
        {{- if not $sqlite }}
        {{- if $postgresql.passwordSecret.name }}
        - name: PGPASSWORD
          valueFrom:
            secretKeyRef: {name: {{ $postgresql.passwordSecret.name }}, key: {{ $postgresql.passwordSecret.key }}}
        {{- end }}
        - name: MILLRACE_LEDGER
          {{- if $postgresql.urlSecret.name }}
          valueFrom:
            secretKeyRef: {name: {{ $postgresql.urlSecret.name }}, key: {{ $postgresql.urlSecret.key }}}
          {{- else }}
          value: {{ $postgresql.url | quote }}
          {{- end }}
        {{- end }}
        {{- with $broker.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      ports:
        - {name: clients, containerPort: {{ $broker.ports.clients }}}
        - {name: engines, containerPort: {{ $broker.ports.engines }}}
        - {name: doorbell, containerPort: {{ $broker.ports.doorbell }}}
        - {name: metrics, containerPort: {{ $broker.ports.metrics }}}
        {{- if .Values.http.enabled }}
        - {name: http, containerPort: {{ $broker.ports.http }}}
        {{- end }}
      {{- /* A large ledger takes its time to open. */}}
      startupProbe: {{- include "millrace.brokerProbe" . | nindent 8 }}
        periodSeconds: 2
        failureThreshold: 900
      readinessProbe: {{- include "millrace.brokerProbe" . | nindent 8 }}
        periodSeconds: 5
        timeoutSeconds: 5
      livenessProbe: {{- include "millrace.brokerProbe" . | nindent 8 }}
        periodSeconds: 20
        timeoutSeconds: 10
        failureThreshold: 6
      lifecycle:
        preStop:
          {{- /* While the service still sends new connections here. */}}
          exec: {command: [sleep, "5"]}
      securityContext: {{- include "millrace.containerSecurity" . | nindent 8 }}
      resources: {{- toYaml $broker.resources | nindent 8 }}
      volumeMounts:
        - {name: keys, mountPath: /etc/millrace/keys, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- if $sqlite }}
        - {name: ledger, mountPath: /var/lib/millrace}
        {{- end }}
        {{- if .Values.http.tlsSecret }}
        - {name: tls, mountPath: /etc/millrace/tls, readOnly: true}
        {{- end }}
        {{- with $broker.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: keys
      secret: {secretName: {{ include "millrace.brokerSecret" . }}, defaultMode: 0440}
    - name: tmp
      emptyDir: {sizeLimit: 64Mi}
    {{- if and $sqlite $broker.ledger.sqlite.existingClaim }}
    - name: ledger
      persistentVolumeClaim: {claimName: {{ $broker.ledger.sqlite.existingClaim }}}
    {{- end }}
    {{- if .Values.http.tlsSecret }}
    - name: tls
      secret: {secretName: {{ .Values.http.tlsSecret }}, defaultMode: 0440}
    {{- end }}
    {{- with $broker.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* /ready wants a token and asks for an engine, so it is none for the kubelet: jobs may wait without an engine. */}}
{{- define "millrace.brokerProbe" -}}
{{- if .Values.http.enabled }}
httpGet: {path: /health, port: http{{ if .Values.http.tlsSecret }}, scheme: HTTPS{{ end }}}
{{- else }}
httpGet: {path: /metrics, port: metrics}
{{- end }}
{{- end -}}
