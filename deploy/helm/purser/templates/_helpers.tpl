{{- define "purser.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* Room is left for the suffixes of services and policies. */ -}}
{{- define "purser.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "purser.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "purser.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "purser.selector" -}}
app.kubernetes.io/name: {{ include "purser.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "purser.labels" -}}
{{ include "purser.selector" . }}
app.kubernetes.io/version: {{ default .Chart.AppVersion .Values.image.tag | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "purser.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- define "purser.claim" -}}
{{- default (printf "%s-data" (include "purser.fullname" .)) .Values.persistence.existingClaim }}
{{- end }}

{{- define "purser.check" -}}
{{- if and (eq .Values.store.kind "postgres") (not .Values.store.databaseSecret.name) }}
{{- fail "store.databaseSecret.name must name the secret with the URL of the database." }}
{{- end }}
{{- with .Values.networkPolicy }}
{{- if and (eq $.Values.mode "shared") (eq $.Values.store.kind "postgres") .enabled (not (or .databasePods .extraEgress .databaseIsPublic)) }}
{{- fail "the network policy would keep purser from its database: name its pods in networkPolicy.databasePods, its addresses in networkPolicy.extraEgress, or set networkPolicy.databaseIsPublic." }}
{{- end }}
{{- end }}
{{- if and (eq .Values.store.kind "postgres") .Values.persistence.existingClaim }}
{{- fail "persistence.existingClaim is for the store bolt: with postgres each pod has a volume of its own." }}
{{- end }}
{{- if and (eq .Values.store.kind "bolt") .Values.postgres.autoscaling.enabled }}
{{- fail "postgres.autoscaling needs store.kind postgres." }}
{{- end }}
{{- if and (eq .Values.store.kind "bolt") (or (gt (int .Values.replicas) 1) (and (hasKey .Values "replicaCount") (gt (int .Values.replicaCount) 1))) }}
{{- fail "replicas must be 1 (or 0): purser's database is a file, which only one process may have open. One purser serves many agents; for several pods on one database set store.kind to postgres; to run several pursers apart, install the chart several times, each with a secret and a volume of its own." }}
{{- end }}
{{- if and .Values.upstream.enabled (not .Values.upstream.url) }}
{{- fail "upstream.url must name the paid API that upstream leads to." }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.enabled) }}
{{- fail "metrics.serviceMonitor needs metrics.enabled." }}
{{- end }}
{{- end }}

{{- /* Variables of the container: those of the image, with secrets as files. */ -}}
{{- define "purser.environment" -}}
{{- if .Values.metrics.enabled }}
- {name: PURSER_METRICS_BIND, value: 0.0.0.0}
{{- end }}
- {name: PURSER_KEY_FILE, value: /run/secrets/purser/key}
- {name: PURSER_MASTER_KEY_FILE, value: /run/secrets/purser/master-key}
{{- with .Values.secretKeys.facilitatorKey }}
- {name: PURSER_FACILITATOR_KEY_FILE, value: /run/secrets/purser/facilitator-key}
{{- end }}
{{- with .Values.secretKeys.internalSecret }}
- {name: PURSER_INTERNAL_SECRET_FILE, value: /run/secrets/purser/internal-secret}
{{- end }}
{{- with .Values.secretKeys.oidcClientSecret }}
- {name: PURSER_OIDC_CLIENT_SECRET_FILE, value: /run/secrets/purser/oidc-client-secret}
{{- end }}
{{- with .Values.secretKeys.signerUrl }}
- {name: PURSER_SIGNER_URL_FILE, value: /run/secrets/purser/signer-url}
{{- end }}
{{- with .Values.secretKeys.signerKey }}
- {name: PURSER_SIGNER_KEY_FILE, value: /run/secrets/purser/signer-key}
{{- end }}
{{- with .Values.secretKeys.cdpApiKeySecret }}
- {name: CDP_API_KEY_SECRET_FILE, value: /run/secrets/purser/cdp-api-key-secret}
{{- end }}
{{- with .Values.secretKeys.cdpWalletSecret }}
- {name: CDP_WALLET_SECRET_FILE, value: /run/secrets/purser/cdp-wallet-secret}
{{- end }}
{{- with .Values.secretKeys.rpcUrl }}
- name: PURSER_RPC_URL
  valueFrom: {secretKeyRef: {name: {{ $.Values.existingSecret }}, key: {{ . }}}}
{{- end }}
{{- with .Values.secretKeys.rpcUrl2 }}
- name: PURSER_RPC_URL_2
  valueFrom: {secretKeyRef: {name: {{ $.Values.existingSecret }}, key: {{ . }}}}
{{- end }}
{{- if eq .Values.store.kind "postgres" }}
- {name: PURSER_STORE, value: postgres}
- name: DATABASE_URL
  valueFrom: {secretKeyRef: {name: {{ .Values.store.databaseSecret.name }}, key: {{ .Values.store.databaseSecret.key }}}}
{{- if .Values.store.databaseCA.name }}
- {name: PGSSLROOTCERT, value: /run/secrets/database/ca.crt}
{{- end }}
{{- end }}
{{- range $name, $value := .Values.settings }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "purser.securityContext" -}}
runAsUser: 65532
runAsGroup: 65532
runAsNonRoot: true
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "purser.secretVolume" -}}
secret:
  secretName: {{ .Values.existingSecret }}
  defaultMode: 0440
  items:
    - {key: {{ .Values.secretKeys.key }}, path: key}
    - {key: {{ .Values.secretKeys.masterKey }}, path: master-key}
    {{- with .Values.secretKeys.facilitatorKey }}
    - {key: {{ . }}, path: facilitator-key}
    {{- end }}
    {{- with .Values.secretKeys.internalSecret }}
    - {key: {{ . }}, path: internal-secret}
    {{- end }}
    {{- with .Values.secretKeys.oidcClientSecret }}
    - {key: {{ . }}, path: oidc-client-secret}
    {{- end }}
    {{- with .Values.secretKeys.signerUrl }}
    - {key: {{ . }}, path: signer-url}
    {{- end }}
    {{- with .Values.secretKeys.signerKey }}
    - {key: {{ . }}, path: signer-key}
    {{- end }}
    {{- with .Values.secretKeys.cdpApiKeySecret }}
    - {key: {{ . }}, path: cdp-api-key-secret}
    {{- end }}
    {{- with .Values.secretKeys.cdpWalletSecret }}
    - {key: {{ . }}, path: cdp-wallet-secret}
    {{- end }}
{{- end }}
