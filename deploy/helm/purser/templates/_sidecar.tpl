{{- /*
purser beside an agent, in its pod, for charts that have this one as a dependency with `mode: sidecar`. They hand over
.Subcharts.purser; README.md shows where to. The agent needs no key: PURSER_STANDIN lets what comes from the pod pay with
the deployment's own.
*/ -}}

{{- /* An entry of initContainers: one that restarts is a sidecar, which starts before the agent and ends after it. */ -}}
{{- define "purser.sidecar.container" -}}
{{- include "purser.check" . -}}
- name: purser
  image: {{ include "purser.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  restartPolicy: Always
  env:
    - {name: PURSER_BIND, value: 127.0.0.1}
    - {name: PURSER_STANDIN, value: loopback}
    {{- if .Values.upstream.enabled }}
    - {name: PURSER_UPSTREAM, value: {{ .Values.upstream.url | quote }}}
    {{- end }}
    {{- include "purser.environment" . | nindent 4 }}
  {{- if .Values.metrics.enabled }}
  ports:
    - {name: metrics, containerPort: 8407}
  {{- end }}
  # It listens where only this pod reaches it, so the probes ask its admin socket.
  startupProbe:
    exec: {command: [/usr/bin/purser, status, --quiet, --alive]}
    periodSeconds: 2
    timeoutSeconds: 10
    failureThreshold: 60
  readinessProbe:
    exec: {command: [/usr/bin/purser, status, --quiet, --ready]}
    periodSeconds: 15
    timeoutSeconds: 10
  # Restarting helps neither a full disk nor a chain that cannot be reached.
  livenessProbe:
    exec: {command: [/usr/bin/purser, status, --quiet, --alive]}
    periodSeconds: 30
    timeoutSeconds: 10
    failureThreshold: 4
  resources:
    {{- toYaml .Values.resources | nindent 4 }}
  securityContext:
    {{- include "purser.securityContext" . | nindent 4 }}
  volumeMounts:
    - {name: purser-data, mountPath: /data}
    - {name: purser-tmp, mountPath: /tmp}
    - {name: purser-secrets, mountPath: /run/secrets/purser, readOnly: true}
{{- end }}

{{- /* Entries of volumes. The agent must mount none of them, and run as another user. */ -}}
{{- define "purser.sidecar.volumes" -}}
- name: purser-tmp
  emptyDir: {sizeLimit: {{ .Values.tmpSize }}}
- name: purser-secrets
  {{- include "purser.secretVolume" . | nindent 2 }}
{{- end }}

{{- /* An entry of a StatefulSet's volumeClaimTemplates: each pod has a wallet and limits of its own. */ -}}
{{- define "purser.sidecar.claim" -}}
- metadata:
    name: purser-data
  spec:
    accessModes: [{{ .Values.persistence.accessMode }}]
    {{- with .Values.persistence.storageClass }}
    storageClassName: {{ . }}
    {{- end }}
    resources:
      requests: {storage: {{ .Values.persistence.size }}}
{{- end }}
