{{- /* Whether this dispatcher starts agents on a Ray cluster that is there already: then its pod has a Ray node of that cluster. */ -}}
{{- define "dispatcher.joinsRay" -}}
{{- if and (include "dispatcher.agentsOnRay" .) (.Values.config.ray | default dict).address }}yes{{ end -}}
{{- end -}}

{{- /* Where the Ray node beside the dispatcher has its name: Ray's TLS checks it, so the address of a pod would need a certificate
for each. */ -}}
{{- define "dispatcher.rayDomain" -}}
{{ include "dispatcher.fullname" . }}-ray.{{ .Release.Namespace }}.svc
{{- end -}}

{{- define "dispatcher.rayNode" -}}
{{ include "dispatcher.fullname" . }}.{{ include "dispatcher.rayDomain" . }}
{{- end -}}

{{- /* What every process of a Ray that spans hosts is told, the dispatcher's included. */ -}}
{{- define "dispatcher.rayEnv" -}}
- name: RAY_AUTH_MODE
  value: token
- name: RAY_AUTH_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ .Values.ray.token.existingSecret }}
      key: {{ .Values.ray.token.key }}
- name: RAY_USE_TLS
  value: "1"
- name: RAY_TLS_SERVER_CERT
  value: /run/secrets/ray/tls.crt
- name: RAY_TLS_SERVER_KEY
  value: /run/secrets/ray/tls.key
- name: RAY_TLS_CA_CERT
  value: /run/secrets/ray/ca.crt
{{- end -}}

{{- /* What the dispatcher and the Ray node beside it share: sockets, memory and certificate. */ -}}
{{- define "dispatcher.rayMounts" -}}
- {name: ray-tmp, mountPath: /tmp/ray}
- {name: shm, mountPath: /dev/shm}
- {name: ray-tls, mountPath: /run/secrets/ray, readOnly: true}
{{- end -}}

{{- /* Of the dispatcher's container, where it starts agents. */ -}}
{{- define "dispatcher.agentMounts" -}}
{{- if include "dispatcher.joinsRay" . }}
{{- include "dispatcher.rayMounts" . }}
{{- else -}}
- {name: shm, mountPath: /dev/shm}
{{- if .Values.ray.clusters.existingSecret }}
- {name: clusters, mountPath: /run/secrets/clusters, readOnly: true}
{{- end }}
{{- end }}
{{- end -}}

{{- define "dispatcher.agentVolumes" -}}
- name: shm
  emptyDir: {medium: Memory, sizeLimit: {{ add (int (.Values.config.ray | default dict).object_store_mib | default 80) 48 }}Mi}
{{- if include "dispatcher.joinsRay" . }}
- name: ray-tmp
  emptyDir: {sizeLimit: 2Gi}
- name: ray-tls
  secret: {secretName: {{ .Values.ray.tls.existingSecret }}, defaultMode: 0440}
{{- else if .Values.ray.clusters.existingSecret }}
- name: clusters
  secret: {secretName: {{ .Values.ray.clusters.existingSecret }}, defaultMode: 0440}
{{- end }}
{{- end -}}

{{- /* The Ray node beside the dispatcher: a process joins Ray by a node on its own machine alone. It has no room for agents. */ -}}
{{- define "dispatcher.rayContainer" -}}
{{- $ray := .Values.ray -}}
- name: ray-node
  image: {{ include "dispatcher.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  # A sidecar: it runs before the dispatcher begins, and as long.
  restartPolicy: Always
  command:
    - ray
    - start
    - --address={{ .Values.config.ray.address }}
    - --block
    - --node-ip-address={{ include "dispatcher.rayNode" . }}
    - --node-manager-port={{ $ray.ports.nodeManager }}
    - --object-manager-port={{ $ray.ports.objectManager }}
    - --dashboard-agent-grpc-port={{ $ray.ports.dashboardAgentGrpc }}
    - --dashboard-agent-listen-port={{ $ray.ports.dashboardAgentListen }}
    - --runtime-env-agent-port={{ $ray.ports.runtimeEnvAgent }}
    - --metrics-export-port={{ $ray.ports.metricsExport }}
    - --min-worker-port={{ $ray.ports.minWorker }}
    - --max-worker-port={{ $ray.ports.maxWorker }}
    - --num-cpus=0
    - --object-store-memory={{ mul (int .Values.config.ray.object_store_mib | default 80) 1048576 }}
    - --temp-dir=/tmp/ray
  env:
    {{- include "dispatcher.env" (dict "root" . "home" "/tmp/ray") | nindent 4 }}
    {{- include "dispatcher.rayEnv" . | nindent 4 }}
    - name: RAY_USAGE_STATS_ENABLED
      value: "0"
    - name: RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S
      value: "0"
    - name: TMPDIR
      value: /tmp/ray
    # Of each of its logs 4 MiB and one earlier file: the folder has a limit.
    - name: RAY_ROTATION_MAX_BYTES
      value: "4194304"
    - name: RAY_ROTATION_BACKUP_COUNT
      value: "1"
  ports:
    - {name: ray-node, containerPort: {{ $ray.ports.nodeManager }}}
  startupProbe:
    tcpSocket: {port: ray-node}
    periodSeconds: 1
    failureThreshold: 120
  livenessProbe:
    tcpSocket: {port: ray-node}
    periodSeconds: 10
    failureThreshold: 3
  resources: {{- toYaml $ray.resources | nindent 4 }}
  securityContext: {{- include "dispatcher.securityContext" . | nindent 4 }}
  volumeMounts: {{- include "dispatcher.rayMounts" . | nindent 4 }}
{{- end -}}

{{- /* What must hold where this dispatcher starts agents. */ -}}
{{- define "dispatcher.checkRay" -}}
{{- if include "dispatcher.agentsOnRay" . -}}
{{- range $at, $one := .Values.config.clusters -}}
{{- if ne ($one.via | default "ray") "gateway" -}}
{{- if not $one.kubeconfig -}}
{{- fail (printf "config.clusters[%d].kubeconfig: the agent of %s is started by this dispatcher, and needs to know how to reach its cluster: name a file of ray.clusters.existingSecret, such as /run/secrets/clusters/%s.kubeconfig; or let it dial in, `via: gateway` (docs/connectivity.md)" $at $one.name $one.name) -}}
{{- end -}}
{{- if not ($one.agent | default dict).key_file -}}
{{- fail (printf "config.clusters[%d].agent.key_file: the key of %s has to outlive its agent: name a file of ray.clusters.existingSecret, such as /run/secrets/clusters/%s.pem" $at $one.name $one.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if include "dispatcher.joinsRay" . -}}
{{- if not .Values.ray.tls.existingSecret -}}
{{- fail "ray.tls.existingSecret: a Ray that spans hosts is joined with TLS alone: name the Secret with this dispatcher's certificate of that Ray (docs/connectivity.md)" -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- if regexMatch "^RAY_.*TLS" (toString .name) -}}
{{- fail (printf "extraEnv: %s is given by ray.tls.existingSecret, and would stand twice: take it out, and its files of extraVolumes" .name) -}}
{{- end -}}
{{- end -}}
{{- if not .Values.config.ray.port -}}
{{- fail "config.ray.port: agents on other hosts dial it, and Services and NetworkPolicies have to know it: name one, such as 7444" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* What listens in one pod: no port can be of two. */ -}}
{{- define "dispatcher.checkPorts" -}}
{{- $ports := dict "config.http.port" .Values.config.http.port -}}
{{- if include "dispatcher.dialledIn" . -}}{{- $_ := set $ports "config.gateway.port" .Values.config.gateway.port -}}{{- end -}}
{{- if and (include "dispatcher.agentsOnRay" .) (.Values.config.ray | default dict).port -}}{{- $_ := set $ports "config.ray.port" .Values.config.ray.port -}}{{- end -}}
{{- $first := 0 -}}{{- $last := 0 -}}
{{- if include "dispatcher.joinsRay" . -}}
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

{{- /* For a NetworkPolicy: the ports of the Ray node beside the dispatcher, and those of its workers as one range. */ -}}
{{- define "dispatcher.rayPorts" -}}
{{- $ports := .Values.ray.ports -}}
{{- range $name := list "nodeManager" "objectManager" "dashboardAgentGrpc" "dashboardAgentListen" "runtimeEnvAgent" "metricsExport" }}
- {protocol: TCP, port: {{ get $ports $name }}}
{{- end }}
- {protocol: TCP, port: {{ $ports.minWorker }}, endPort: {{ $ports.maxWorker }}}
{{- end -}}

{{- /* Into the pod come agents and Ray's other nodes; where agents are in the pod, who asks them for logs of remote pods. */ -}}
{{- define "dispatcher.rayIngress" -}}
{{- if include "dispatcher.joinsRay" . }}
- ports:
    - {protocol: TCP, port: {{ .Values.config.ray.port }}}
    {{- include "dispatcher.rayPorts" . | nindent 4 }}
  {{- with .Values.networkPolicy.ray }}
  from: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- else }}
{{- range .Values.config.clusters }}
{{- with (.agent | default dict).relay }}
- ports: [{protocol: TCP, port: {{ .port | default 10250 }}}]
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* Out go what Ray's nodes say to each other, at any port, as their workers' are not known here; or what agents in the pod ask. */ -}}
{{- define "dispatcher.rayEgress" -}}
{{- if include "dispatcher.joinsRay" . }}
{{- if .Values.networkPolicy.ray }}
- to: {{- toYaml .Values.networkPolicy.ray | nindent 4 }}
{{- else }}
- ports:
    - {protocol: TCP, port: 1024, endPort: 65535}
{{- end }}
{{- else }}
- ports:
    {{- range .Values.networkPolicy.agentPorts }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end }}
{{- end -}}
