{{/* Scales a deployment of engines by the tokens that wait for its model or run. Takes the context, the component and the
     engine. All brokers of a ledger tell the same of what waits, so the largest figure counts; what runs each broker tells
     of its own engines. */}}
{{- define "millrace.scaledObject" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $engine := index . 2 -}}
{{- $scale := $engine.scale -}}
{{- if not $root.Values.prometheus.address -}}
{{- fail (printf "%s: scale needs prometheus.address, the address of a Prometheus that scrapes the broker" $component) -}}
{{- end -}}
{{- $model := include "millrace.modelName" $engine -}}
{{- $target := include "millrace.target" $root }}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: {{ include "millrace.name" $root }}-{{ $component }}
  labels: {{- include "millrace.labels" (list $root $component) | nindent 4 }}
spec:
  scaleTargetRef: {name: {{ include "millrace.name" $root }}-{{ $component }}}
  minReplicaCount: {{ int64 $scale.min }}
  maxReplicaCount: {{ int64 $scale.max }}
  pollingInterval: {{ int64 $scale.pollSeconds }}
  cooldownPeriod: {{ int64 $scale.cooldownSeconds }}
  {{- /* The broker refuses jobs for a model that no engine has ever served, so the first engine gets time to say hello. */}}
  initialCooldownPeriod: {{ int64 $engine.startSeconds }}
  triggers:
    - type: prometheus
      metadata:
        serverAddress: {{ $root.Values.prometheus.address }}
        threshold: {{ int64 $scale.tokensPerEngine | quote }}
        activationThreshold: "0"
        query: >-
          (sum(max by (tenant, model_name) (millrace_queue_tokens{ {{- $target }},model_name={{ $model | quote -}} }
          or millrace_queue_tokens{ {{- $target }},model_name="*"})) or vector(0))
          + (sum(millrace_leased_tokens{ {{- $target }},model_name={{ $model | quote -}} }) or vector(0))
{{- end -}}
