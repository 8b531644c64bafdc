{{- define "dispatcher.fullname" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "dispatcher.serviceAccount" -}}
{{- default (include "dispatcher.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "dispatcher.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "dispatcher.labels" -}}
{{ include "dispatcher.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: dispatcher
app.kubernetes.io/part-of: global-dispatcher
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "dispatcher.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Of every container: nothing that could grow into more rights. */ -}}
{{- define "dispatcher.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- /* Of every container: (dict "root" $ "home" FOLDER). */ -}}
{{- define "dispatcher.env" -}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- name: HOME
  value: {{ .home }}
{{- with .root.Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Whether there are standbys: then each pod has a name and Services of its own. */ -}}
{{- define "dispatcher.several" -}}
{{- if gt (int .Values.replicas) 1 }}yes{{ end -}}
{{- end -}}

{{- /* Whether some cluster dials in, and whether some cluster's agent is started by this dispatcher. */ -}}
{{- define "dispatcher.dialledIn" -}}
{{- range .Values.config.clusters }}{{ if eq (.via | default "ray") "gateway" }}yes{{ end }}{{ end -}}
{{- end -}}

{{- /* Whether it has a key to sign orders with. */ -}}
{{- define "dispatcher.signs" -}}
{{- if and .Values.signing.tlsSecret (include "dispatcher.dialledIn" .) }}yes{{ end -}}
{{- end -}}

{{- define "dispatcher.agentsOnRay" -}}
{{- range .Values.config.clusters }}{{ if ne (.via | default "ray") "gateway" }}yes{{ end }}{{ end -}}
{{- end -}}

{{- define "dispatcher.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* What is mounted by dispatcher.mounts. */ -}}
{{- define "dispatcher.volumes" -}}
- name: tmp
  emptyDir: {sizeLimit: 2Gi}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* As the dispatcher itself takes them: with others it ends at once, after the earlier one has made room. */ -}}
{{- define "dispatcher.checkElection" -}}
{{- $of := .Values.config.leader_election | default dict -}}
{{- $lease := dig "lease_s" 15 $of | float64 -}}
{{- $deadline := dig "renew_deadline_s" 10 $of | float64 -}}
{{- if ge $deadline $lease -}}
{{- fail (printf "config.leader_election.renew_deadline_s: must be less than lease_s (%v), not %v" $lease $deadline) -}}
{{- end -}}
{{- if gt (dig "retry_s" 2 $of | float64) (divf $deadline 2) -}}
{{- fail (printf "config.leader_election.retry_s: must be at most half of renew_deadline_s (%v)" $deadline) -}}
{{- end -}}
{{- end -}}

{{- /* As above. The defaults stand in values.yaml; one that is null is the dispatcher's own, which is the same. */ -}}
{{- define "dispatcher.checkTimes" -}}
{{- $of := merge dict (.Values.config.timing | default dict) (dict "cluster_silent_s" 10 "cluster_lost_s" 30 "poll_wait_s" 3 "deadline_s" 20 "execute_s" 30 "peers_s" 5 "delegate_lease_s" 120 "backoff_first_s" 1 "backoff_longest_s" 10) -}}
{{- range list (list "poll_wait_s" "cluster_silent_s") (list "cluster_silent_s" "cluster_lost_s") (list "deadline_s" "execute_s") (list "backoff_first_s" "backoff_longest_s") -}}
{{- $low := index . 0 -}}{{- $high := index . 1 -}}
{{- if gt (index $of $low | float64) (index $of $high | float64) -}}
{{- fail (printf "config.timing.%s: must not be greater than %s (%v), and is %v" $low $high (index $of $high) (index $of $low)) -}}
{{- end -}}
{{- end -}}
{{- if gt (mulf 4 (float64 $of.peers_s)) (float64 $of.delegate_lease_s) -}}
{{- fail (printf "config.timing.peers_s: must be at most a quarter of delegate_lease_s (%v)" $of.delegate_lease_s) -}}
{{- end -}}
{{- $moves := .Values.config.rebalancing | default dict -}}
{{- if ge (dig "cool" 0.6 $moves | float64) (dig "hot" 0.7 $moves | float64) -}}
{{- fail (printf "config.rebalancing.cool: must be less than hot (%v)" (dig "hot" 0.7 $moves)) -}}
{{- end -}}
{{- end -}}

{{- /* What cannot be left to the schema: a dispatcher without clusters would end at once. */ -}}
{{- define "dispatcher.check" -}}
{{- if not .Values.config.clusters -}}
{{- fail "config.clusters: name the member clusters, for example --set 'config.clusters[0].name=east'" -}}
{{- end -}}
{{- $seen := list -}}{{- $uids := dict -}}{{- $keys := dict -}}
{{- range $at, $one := .Values.config.clusters -}}
{{- if has $one.name $seen -}}
{{- fail (printf "config.clusters[%d].name: %s is listed before: give each cluster a name of its own" $at $one.name) -}}
{{- end -}}
{{- $seen = append $seen $one.name -}}
{{- if and $one.uid (hasKey $uids $one.uid) -}}
{{- fail (printf "config.clusters[%d].uid: %s is that of %s, too: one cluster may be listed once" $at $one.uid (get $uids $one.uid)) -}}
{{- end -}}
{{- if $one.uid -}}{{- $_ := set $uids $one.uid $one.name -}}{{- end -}}
{{- if and $one.key (hasKey $keys $one.key) -}}
{{- fail (printf "config.clusters[%d].key: %s is given for %s and for %s: each cluster signs with a key of its own" $at $one.key (get $keys $one.key) $one.name) -}}
{{- end -}}
{{- if $one.key -}}{{- $_ := set $keys $one.key $one.name -}}{{- end -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" (include "dispatcher.fullname" .)) -}}
{{- fail (printf "fullnameOverride: %s cannot name a Service: give lower case letters, digits and '-', beginning with a letter" (include "dispatcher.fullname" .)) -}}
{{- end -}}
{{- if gt (int .Values.replicas) 1 -}}
{{- $election := .Values.config.leader_election | default dict -}}
{{- if include "dispatcher.agentsOnRay" . -}}
{{- fail "replicas: more than 1 needs `via: gateway` for all of config.clusters: agents that a dispatcher starts obey that one alone" -}}
{{- end -}}
{{- if not (and $election.enabled (dig "warm" true $election)) -}}
{{- fail "replicas: more than 1 needs config.leader_election.enabled and warm: one leads, and the others are ready" -}}
{{- end -}}
{{- if (.Values.config.quota | default dict).ledger -}}
{{- fail "replicas: more than 1 needs an empty config.quota.ledger: the file of one knows nothing of what another charged" -}}
{{- end -}}
{{- end -}}
{{- include "dispatcher.checkElection" . -}}
{{- include "dispatcher.checkTimes" . -}}
{{- include "dispatcher.checkHttp" . -}}
{{- include "dispatcher.checkRay" . -}}
{{- include "dispatcher.checkPorts" . -}}
{{- include "dispatcher.checkSecrets" . -}}
{{- include "dispatcher.checkEgress" . -}}
{{- include "dispatcher.checkWritten" . -}}
{{- if not (or .Values.serviceAccount.create .Values.serviceAccount.name) -}}
{{- fail (printf "serviceAccount.name: is empty, and serviceAccount.create is false: name the ServiceAccount of namespace %s that exists, as %s if it is called so" .Release.Namespace (include "dispatcher.fullname" .)) -}}
{{- end -}}
{{- $known := list -}}
{{- range $name, $profile := .Values.profiles -}}
{{- if $profile -}}{{- $known = append $known (printf "profiles/%s.yaml" $name) -}}{{- end -}}
{{- end -}}
{{- range .Values.config.plugin_files -}}
{{- if not (hasKey $.Values.plugins (. | trimPrefix "plugins/" | trimSuffix ".py")) -}}
{{- fail (printf "config.plugin_files: %s is none of plugins: %s" . (keys $.Values.plugins | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.config.profiles .Values.config.profile -}}
{{- fail (printf "config.profile: %s is given beside config.profiles: set config.profile to \"\", and list it there if it is wanted" .Values.config.profile) -}}
{{- end -}}
{{- range (.Values.config.profiles | default (list .Values.config.profile)) -}}
{{- if not (has . $known) -}}
{{- fail (printf "config.profile(s): %s is none of: %s" . (join ", " $known)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The port of a URL, or of HOST:PORT, which is a proxy's. */ -}}
{{- define "dispatcher.portOf" -}}
{{- $host := regexReplaceAll "^[A-Za-z][A-Za-z0-9+.-]*://" . "" | splitList "/" | first -}}
{{- $secure := regexMatch "^(?i)(https|wss)://" . -}}
{{- regexFind ":[0-9]+$" $host | trimPrefix ":" | default (ternary "443" "80" $secure) -}}
{{- end -}}

{{- /* Where traces go: config.tracing.endpoint, or what OpenTelemetry reads of the environment; as a variable, in JSON. */ -}}
{{- define "dispatcher.collector" -}}
{{- $tracing := .Values.config.tracing | default dict -}}
{{- $found := dict -}}
{{- if and $tracing.enabled $tracing.endpoint -}}
{{- $found = dict "name" "config.tracing.endpoint" "value" $tracing.endpoint -}}
{{- else if $tracing.enabled -}}
{{- range $name := list "OTEL_EXPORTER_OTLP_ENDPOINT" "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" -}}
{{- range $.Values.extraEnv -}}{{- if eq .name $name -}}{{- $found = . -}}{{- end -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{- /* A NetworkPolicy is about addresses and ports, so what is not known here has to be said there. */ -}}
{{- define "dispatcher.checkEgress" -}}
{{- $collector := include "dispatcher.collector" . | fromJson -}}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.egress) $collector.name (not $collector.value) -}}
{{- fail (printf "extraEnv: the port of the collector in %s is not known here, and networkPolicy.enabled lets nothing out to it: add a rule to networkPolicy.egress, such as {ports: [{protocol: TCP, port: 4318}]}, or name it as config.tracing.endpoint" $collector.name) -}}
{{- end -}}
{{- end -}}

{{- /* The key that signs orders is the dispatcher's alone: a Secret that Ray's container has must not hold it. */ -}}
{{- define "dispatcher.checkSecrets" -}}
{{- if include "dispatcher.signs" . -}}
{{- $others := dict "gateway.tlsSecret" .Values.gateway.tlsSecret -}}
{{- if include "dispatcher.joinsRay" . -}}{{- $_ := set $others "ray.tls.existingSecret" .Values.ray.tls.existingSecret -}}{{- end -}}
{{- range $key, $secret := $others -}}
{{- if eq $secret $.Values.signing.tlsSecret -}}
{{- fail (printf "signing.tlsSecret: %s is %s, too: the key that signs orders needs a Secret of its own, which no other container has" $secret $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Whether the HTTP API asks nobody who he is, and no NetworkPolicy says who reaches it. */ -}}
{{- define "dispatcher.openHttp" -}}
{{- if not (or .Values.httpTokens.existingSecret .Values.networkPolicy.enabled) }}yes{{ end -}}
{{- end -}}

{{- /* Of paths by key those that are in none of these folders, as JSON: (dict "paths" DICT "folders" LIST). */ -}}
{{- define "dispatcher.outside" -}}
{{- $found := dict -}}
{{- range $key, $path := .paths -}}
{{- $in := false -}}
{{- range $.folders -}}
{{- if hasPrefix (printf "%s/" (trimSuffix "/" .)) (printf "%s/" $path) -}}{{- $in = true -}}{{- end -}}
{{- end -}}
{{- if and $path (not $in) -}}{{- $_ := set $found $key $path -}}{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{- /* Files of the configuration that are on no volume of the dispatcher's, by key, as JSON. */ -}}
{{- define "dispatcher.unmounted" -}}
{{- $folders := list "/run/secrets/gateway" "/tmp" -}}
{{- if .Values.ray.clusters.existingSecret -}}{{- $folders = append $folders "/run/secrets/clusters" -}}{{- end -}}
{{- range .Values.extraVolumeMounts -}}{{- $folders = append $folders .mountPath -}}{{- end -}}
{{- $paths := dict -}}
{{- if include "dispatcher.dialledIn" . -}}
{{- range $key := list "cert_file" "key_file" "client_ca_file" -}}{{- $_ := set $paths (printf "config.gateway.%s" $key) (get $.Values.config.gateway $key) -}}{{- end -}}
{{- end -}}
{{- if not (include "dispatcher.joinsRay" .) -}}
{{- range $at, $one := .Values.config.clusters -}}
{{- if ne ($one.via | default "ray") "gateway" -}}
{{- $_ := set $paths (printf "config.clusters[%d].kubeconfig" $at) $one.kubeconfig -}}
{{- $_ := set $paths (printf "config.clusters[%d].agent.key_file" $at) ($one.agent | default dict).key_file -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "dispatcher.outside" (dict "paths" $paths "folders" $folders) -}}
{{- end -}}

{{- /* What is written goes to a volume: nothing else of the container can be written. */ -}}
{{- define "dispatcher.checkWritten" -}}
{{- $folders := list "/tmp" -}}
{{- range .Values.extraVolumeMounts -}}{{- if not .readOnly -}}{{- $folders = append $folders .mountPath -}}{{- end -}}{{- end -}}
{{- $paths := dict "config.journal.path" (.Values.config.journal | default dict).path "config.quota.ledger" (.Values.config.quota | default dict).ledger -}}
{{- range $key, $path := include "dispatcher.outside" (dict "paths" $paths "folders" $folders) | fromJson -}}
{{- fail (printf "%s: %s is on no volume that can be written, and the rest of the container cannot: name a path below a mountPath of extraVolumeMounts" $key $path) -}}
{{- end -}}
{{- end -}}

{{- /* The HTTP API has readers that this chart makes: the kubelet's probes, the Service, `helm test`, the ServiceMonitor. The
gateway has probes, too. */ -}}
{{- define "dispatcher.checkHttp" -}}
{{- $host := .Values.config.http.host -}}
{{- $loopback := "^(127\\..*|localhost|::1)$" -}}
{{- if regexMatch $loopback $host -}}
{{- fail (printf "config.http.host: %s is loopback, where neither the kubelet's probes nor the Service reach it: leave 0.0.0.0 (who may read it: httpTokens, networkPolicy)" $host) -}}
{{- end -}}
{{- $gateway := (.Values.config.gateway | default dict).host | default "" -}}
{{- if and (include "dispatcher.dialledIn" .) (regexMatch $loopback $gateway) -}}
{{- fail (printf "config.gateway.host: %s is loopback, where neither the kubelet's probes nor agents reach it: leave 0.0.0.0 (who may dial: networkPolicy.gateway)" $gateway) -}}
{{- end -}}
{{- if and (ne .Values.service.type "ClusterIP") (not .Values.httpTokens.existingSecret) -}}
{{- fail (printf "service.type: %s leads to the HTTP API from outside of the cluster, and nobody is asked who he is: name a Secret with tokens as httpTokens.existingSecret, or leave ClusterIP" .Values.service.type) -}}
{{- end -}}
{{- $login := .Values.config.http.login | default dict -}}
{{- if $login.token_file -}}
{{- fail "config.http.login.token_file: the pod of `helm test` and the ServiceMonitor would have no token: name the Secret as httpTokens.existingSecret, which is mounted and named here" -}}
{{- end -}}
{{- if and $login.user_header (not .Values.httpTokens.existingSecret) -}}
{{- fail "config.http.login.user_header: the pod of `helm test` and the ServiceMonitor do not come by that proxy, and need a token: name a Secret with one as httpTokens.existingSecret, too" -}}
{{- end -}}
{{- end -}}
