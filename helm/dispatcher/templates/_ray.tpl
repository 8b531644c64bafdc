{{- define "dispatcher.rayTls" -}}
{{- if and .Values.ray.tls.existingSecret (include "dispatcher.agentsOnRay" .) }}yes{{ end -}}
{{- end -}}

{{- /* Of all Ray nodes that this chart makes. */ -}}
{{- define "dispatcher.rayLabel" -}}
global-dispatcher.io/ray: {{ include "dispatcher.fullname" . }}
{{- end -}}

{{- /* Of pods beside the dispatcher's, which its selector must not match: (dict "root" $ "role" "head"). */ -}}
{{- define "dispatcher.raySelector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}-ray-{{ .role }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end -}}

{{- define "dispatcher.rayLabels" -}}
{{ include "dispatcher.raySelector" . }}
{{ include "dispatcher.rayLabel" .root }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/component: ray-{{ .role }}
app.kubernetes.io/part-of: global-dispatcher
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* Where pods of the headless Service have names. Ray's TLS checks them, so addresses of pods would need a certificate
for each. */ -}}
{{- define "dispatcher.rayDomain" -}}
{{ include "dispatcher.fullname" . }}-ray.{{ .Release.Namespace }}.svc
{{- end -}}

{{- define "dispatcher.rayAddress" -}}
{{ include "dispatcher.fullname" . }}-ray-head-0.{{ include "dispatcher.rayDomain" . }}:{{ .Values.ray.ports.gcs }}
{{- end -}}

{{- /* The name of a Ray node of a role: see dispatcher.rayContainer. */ -}}
{{- define "dispatcher.rayNode" -}}
{{ ternary (include "dispatcher.fullname" .root) "$(POD_NAME)" (eq .role "node") }}.{{ include "dispatcher.rayDomain" .root }}
{{- end -}}

{{- /* What a Ray process is told; the dispatcher's container has no Ray, and gets none of it. */ -}}
{{- define "dispatcher.rayEnv" -}}
- name: RAY_AUTH_MODE
  value: token
- name: RAY_AUTH_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ .Values.ray.token.existingSecret }}
      key: {{ .Values.ray.token.key }}
- name: RAY_USAGE_STATS_ENABLED
  value: "0"
# How long nodes and drivers go on without their head.
- name: RAY_gcs_rpc_server_reconnect_timeout_s
  value: "600"
{{- if include "dispatcher.rayTls" . }}
- name: RAY_USE_TLS
  value: "1"
- name: RAY_TLS_SERVER_CERT
  value: /run/secrets/ray/tls.crt
- name: RAY_TLS_SERVER_KEY
  value: /run/secrets/ray/tls.key
- name: RAY_TLS_CA_CERT
  value: /run/secrets/ray/ca.crt
{{- end }}
{{- end -}}

{{- /* Where a Ray node of a role may write. In the dispatcher's pod that is Ray's own folder alone, which the driver empties
when it begins. */ -}}
{{- define "dispatcher.rayHome" -}}
{{ ternary "/tmp/ray" "/tmp" (eq .role "node") }}
{{- end -}}

{{- /* Folders of Ray's own: what runs in Ray must not write where the dispatcher's process reads. (dict "root" $ "role" ...) */ -}}
{{- define "dispatcher.rayMounts" -}}
- {name: ray-tmp, mountPath: {{ include "dispatcher.rayHome" . }}}
- {name: shm, mountPath: /dev/shm}
{{- if include "dispatcher.rayTls" .root }}
- {name: ray-tls, mountPath: /run/secrets/ray, readOnly: true}
{{- end }}
{{- with .root.Values.ray.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* What is mounted by dispatcher.rayMounts, but for extraVolumes. In the dispatcher's pod all that Ray may write is in memory,
which counts to the limit of Ray's container: a folder on the disk that outgrows its limit has the whole pod evicted. */ -}}
{{- define "dispatcher.rayVolumes" -}}
{{- $ray := .root.Values.ray -}}
- name: ray-tmp
  {{- if eq .role "node" }}
  emptyDir: {medium: Memory, sizeLimit: {{ $ray.filesMib }}Mi}
  {{- else }}
  emptyDir: {sizeLimit: 2Gi}
  {{- end }}
- name: shm
  emptyDir: {medium: Memory, sizeLimit: {{ add (int $ray.objectStoreMib) 48 }}Mi}
{{- if include "dispatcher.rayTls" .root }}
- name: ray-tls
  secret: {secretName: {{ $ray.tls.existingSecret }}, defaultMode: 0440}
{{- end }}
{{- end -}}

{{- /* Of extraVolumes those that ray.extraVolumeMounts names: a claim of the dispatcher's cannot be mounted on two nodes. */ -}}
{{- define "dispatcher.rayExtraVolumes" -}}
{{- $named := list -}}
{{- range .Values.ray.extraVolumeMounts -}}{{- $named = append $named .name -}}{{- end -}}
{{- range .Values.extraVolumes }}
{{- if has .name $named }}
{{ toYaml (list .) }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* A Ray node's container. (dict "root" $ "role" ...): `head`, in a pod of its own; `node`, in the dispatcher's
with the Ray driver. */ -}}
{{- define "dispatcher.rayContainer" -}}
{{- $ray := .root.Values.ray }}
{{- $isHead := eq .role "head" }}
{{- $probed := ternary "ray-gcs" "ray-node" $isHead }}
- name: {{ ternary "ray-head" (printf "ray-%s" .role) $isHead }}
  {{- if eq .role "node" }}
  # It has no key, and shares with the dispatcher the driver's socket alone.
  {{- end }}
  image: {{ include "dispatcher.image" .root }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command:
    {{- if eq .role "node" }}
    - global-dispatcher
    - ray-driver
    - --socket=/run/ray-driver/socket
    - --address={{ include "dispatcher.rayAddress" .root }}
    - --empty=/tmp/ray
    - --
    {{- else }}
    - ray
    - start
    - --head
    - --port={{ $ray.ports.gcs }}
    - --include-dashboard=false
    - --block
    {{- end }}
    - --node-ip-address={{ include "dispatcher.rayNode" . }}
    - --node-manager-port={{ $ray.ports.nodeManager }}
    - --object-manager-port={{ $ray.ports.objectManager }}
    - --dashboard-agent-grpc-port={{ $ray.ports.dashboardAgentGrpc }}
    - --dashboard-agent-listen-port={{ $ray.ports.dashboardAgentListen }}
    - --runtime-env-agent-port={{ $ray.ports.runtimeEnvAgent }}
    - --metrics-export-port={{ $ray.ports.metricsExport }}
    - --min-worker-port={{ $ray.ports.minWorker }}
    - --max-worker-port={{ $ray.ports.maxWorker }}
    # Agents run in their own clusters: no room for anybody's code here.
    - --num-cpus=0
    - --object-store-memory={{ mul (int $ray.objectStoreMib) 1048576 }}
    - --temp-dir=/tmp/ray
  env:
    - name: POD_NAME
      valueFrom: {fieldRef: {fieldPath: metadata.name}}
    {{- include "dispatcher.env" (dict "root" .root "home" (include "dispatcher.rayHome" .)) | nindent 4 }}
    {{- include "dispatcher.rayEnv" .root | nindent 4 }}
    - name: RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S
      value: "0"
    {{- if eq .role "node" }}
    - name: TMPDIR
      value: /tmp/ray
    # Its logs are in memory: 4 MiB and one earlier file of each.
    - name: RAY_ROTATION_MAX_BYTES
      value: "4194304"
    - name: RAY_ROTATION_BACKUP_COUNT
      value: "1"
    {{- end }}
    {{- if eq .role "head" }}
    - name: RAY_gcs_storage
      value: rocksdb
    - name: RAY_gcs_storage_path
      value: /var/lib/ray-gcs
    {{- end }}
  ports:
    {{- if $isHead }}
    - {name: ray-gcs, containerPort: {{ $ray.ports.gcs }}}
    {{- else }}
    - {name: ray-node, containerPort: {{ $ray.ports.nodeManager }}}
    {{- end }}
  startupProbe:
    tcpSocket: {port: {{ $probed }}}
    periodSeconds: 1
    failureThreshold: 120
  livenessProbe:
    tcpSocket: {port: {{ $probed }}}
    periodSeconds: 10
    failureThreshold: 3
  resources: {{- toYaml $ray.resources | nindent 4 }}
  securityContext: {{- include "dispatcher.securityContext" .root | nindent 4 }}
  volumeMounts:
    {{- if eq .role "head" }}
    - {name: gcs, mountPath: /var/lib/ray-gcs}
    {{- end }}
    {{- if eq .role "node" }}
    - {name: ray-driver, mountPath: /run/ray-driver}
    {{- end }}
    {{- include "dispatcher.rayMounts" . | nindent 4 }}
{{- end -}}

{{- /* What the head's pod has in common with the dispatcher's: where and as whom it runs. */ -}}
{{- define "dispatcher.rayPod" -}}
# Nothing in it asks Kubernetes for anything.
automountServiceAccountToken: false
enableServiceLinks: false
securityContext: {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
terminationGracePeriodSeconds: {{ .root.Values.terminationGracePeriodSeconds }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* What must hold where there is Ray: its nodes find each other by names of this cluster, and prove them. */ -}}
{{- define "dispatcher.checkRay" -}}
{{- if and (include "dispatcher.agentsOnRay" .) (not .Values.ray.tls.existingSecret) -}}
{{- fail "ray.tls.existingSecret: Ray needs it, for clusters without `via: gateway`: name the Secret with Ray's certificate (docs/connectivity.md)" -}}
{{- end -}}
{{- if include "dispatcher.agentsOnRay" . -}}
{{- range .Values.extraEnv -}}
{{- if regexMatch "^RAY_.*TLS" (toString .name) -}}
{{- fail (printf "extraEnv: %s is given by ray.tls.existingSecret, and would stand twice: take it out, and its files of extraVolumes" .name) -}}
{{- end -}}
{{- end -}}
{{- /* A pod of a StatefulSet has the label controller-revision-hash, NAME-HASH of at most 63 characters, the hash of 10. */ -}}
{{- $full := include "dispatcher.fullname" . -}}
{{- if gt (len $full) 43 -}}
{{- fail (printf "fullnameOverride: %s has %d characters; with Ray's pods it may have 43" $full (len $full)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The dispatcher listens at the address of the Ray node beside it: no port can be of two. */ -}}
{{- define "dispatcher.checkPorts" -}}
{{- $ports := dict "config.http.port" .Values.config.http.port -}}
{{- if include "dispatcher.dialledIn" . -}}{{- $_ := set $ports "config.gateway.port" .Values.config.gateway.port -}}{{- end -}}
{{- $first := 0 -}}{{- $last := 0 -}}
{{- if include "dispatcher.agentsOnRay" . -}}
{{- $first = int .Values.ray.ports.minWorker -}}{{- $last = int .Values.ray.ports.maxWorker -}}
{{- if gt $first $last -}}{{- fail (printf "ray.ports.minWorker: %d is above ray.ports.maxWorker, %d" $first $last) -}}{{- end -}}
{{- range $name, $port := omit .Values.ray.ports "minWorker" "maxWorker" -}}{{- $_ := set $ports (printf "ray.ports.%s" $name) $port -}}{{- end -}}
{{- end -}}
{{- $taken := dict -}}
{{- range $name, $port := $ports -}}
{{- $number := int $port -}}
{{- with get $taken (toString $number) -}}{{- fail (printf "%s: %d is %s, too: give each a port of its own" $name $number .) -}}{{- end -}}
{{- if and (ge $number $first) (le $number $last) -}}
{{- fail (printf "%s: %d is one of ray.ports.minWorker to maxWorker, %d to %d: give it a port of its own" $name $number $first $last) -}}
{{- end -}}
{{- $_ := set $taken (toString $number) $name -}}
{{- end -}}
{{- end -}}

{{- /* For a NetworkPolicy: a Ray node's ports, and those of its workers as one range. */ -}}
{{- define "dispatcher.rayPorts" -}}
{{- $ports := .Values.ray.ports -}}
{{- range $name := list "gcs" "nodeManager" "objectManager" "dashboardAgentGrpc" "dashboardAgentListen" "runtimeEnvAgent" "metricsExport" -}}
{{ if ne $name "gcs" }}
{{ end -}}
- {protocol: TCP, port: {{ get $ports $name }}}
{{- end }}
- {protocol: TCP, port: {{ $ports.minWorker }}, endPort: {{ $ports.maxWorker }}}
{{- end -}}

{{- /* One rule of a NetworkPolicy for Ray's ports; `key` says whether of `from` or `to`: the nodes that this chart makes,
or agents of other clusters. */ -}}
{{- define "dispatcher.rayRule" -}}
- ports: {{- include "dispatcher.rayPorts" .root | nindent 4 }}
  {{- $others := .root.Values.networkPolicy.ray }}
  {{- $agents := include "dispatcher.agentsOnRay" .root }}
  {{- if or $others (not $agents) }}
  {{ .key }}:
    - podSelector:
        matchLabels: {{- include "dispatcher.rayLabel" .root | nindent 10 }}
    {{- if $agents }}
    {{- toYaml $others | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end -}}

{{- /* What Ray's certificate must be valid for. */ -}}
{{- define "dispatcher.rayNames" -}}
- "*.{{ include "dispatcher.rayDomain" . }}"
{{- end -}}
