{{- define "agent.fullname" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- /* Of objects without a namespace: two releases of one name must not meet. */ -}}
{{- define "agent.clusterName" -}}
{{ .Release.Namespace }}-{{ include "agent.fullname" . }}
{{- end -}}

{{- define "agent.serviceAccount" -}}
{{- default (include "agent.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- /* What the pods are: "both", or one of each role. */ -}}
{{- define "agent.roles" -}}
{{- if .Values.gateway.split -}}observer executor{{- else -}}both{{- end -}}
{{- end -}}

{{- /* "-observer" or "-executor", nothing where one process is both. */ -}}
{{- define "agent.suffix" -}}
{{- if ne . "both" -}}-{{ . }}{{- end -}}
{{- end -}}

{{- /* The account of those that write, and of one role: of both where there is one process. */ -}}
{{- define "agent.accountOf" -}}
{{ include "agent.serviceAccount" .root }}{{ if eq .role "observer" }}-observer{{ end }}
{{- end -}}

{{- /* As whom kubelets are asked. */ -}}
{{- define "agent.kubeletAccount" -}}
{{ include "agent.serviceAccount" . }}-kubelets
{{- end -}}

{{- define "agent.selectorOf" -}}
{{ include "agent.selector" .root }}
{{- if ne .role "both" }}
app.kubernetes.io/component: {{ .role }}
{{- end }}
{{- end -}}

{{- define "agent.labelsOf" -}}
{{ include "agent.labels" .root | replace "component: agent" (printf "component: %s" (ternary "agent" .role (eq .role "both"))) }}
{{- end -}}

{{- /* The Secret with this cluster's keys: the operator's own, or the one that this chart makes. */ -}}
{{- define "agent.keySecret" -}}
{{- default (printf "%s-key" (include "agent.fullname" .)) .Values.keySecret -}}
{{- end -}}

{{- define "agent.gatewayFolder" -}}
/run/secrets/gateway
{{- end -}}

{{- define "agent.relayFolder" -}}
/run/secrets/relay
{{- end -}}

{{- /* Whether it serves as the kubelet of proxy nodes. */ -}}
{{- define "agent.relays" -}}
{{- if .Values.relay.enabled -}}yes{{- end -}}
{{- end -}}

{{- /* Whether it asks for the serving certificate of that by a CertificateSigningRequest. */ -}}
{{- define "agent.asksForCertificate" -}}
{{- if and (include "agent.relays" .) (eq .Values.relay.certificate "csr") -}}yes{{- end -}}
{{- end -}}

{{- define "agent.keyFolder" -}}
/run/secrets/global-dispatcher
{{- end -}}

{{- /* matchConditions: anybody but our agent and whom the values except. */ -}}
{{- define "agent.reserved" -}}
{{- $reserve := .root.Values.reserveKeys -}}
- name: is-not-our-agent
  expression: >-
    !(request.userInfo.username in {{ toJson (prepend $reserve.users .user) }})
- name: is-nobody-who-may
  expression: >-
    !request.userInfo.?groups.orValue([]).exists(group, group in {{ toJson $reserve.groups }})
{{- end -}}

{{- define "agent.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "agent.labels" -}}
{{ include "agent.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: agent
app.kubernetes.io/part-of: global-dispatcher
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "agent.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "agent.subjects" -}}
- kind: ServiceAccount
  name: {{ include "agent.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{- /* Whom the reading rights are for. */ -}}
{{- define "agent.observerSubjects" -}}
- kind: ServiceAccount
  name: {{ include "agent.accountOf" (dict "root" . "role" (splitList " " (include "agent.roles" .) | first)) }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{- /* Where agents of the same pod network try each other: nowhere if the NetworkPolicy does not let them, for a try that it
stops tells nothing of the network. Values of an older chart have no port, and the agent its default. */ -}}
{{- define "agent.podPort" -}}
{{- $shut := and .Values.networkPolicy.enabled (not (dig "executor" "services" false .Values.config)) -}}
{{- $port := (.Values.config.links | default dict).pod_port -}}
{{- ternary 0 (kindIs "invalid" $port | ternary 7491 (int $port)) $shut -}}
{{- end -}}

{{- /* agent.yaml, as agents/runtime/join/settings.py reads it. */ -}}
{{- define "agent.config" -}}
{{- $own := dict
      "cluster" .Values.cluster
      "key_file" (printf "%s/key.pem" (include "agent.keyFolder" .))
      "health" (dict "host" "0.0.0.0" "port" .Values.health.port)
      "metrics" (dict "enabled" .Values.metrics.enabled "host" "0.0.0.0" "port" .Values.metrics.port) -}}
{{- $folder := include "agent.gatewayFolder" . -}}
{{- $_ := set $own "gateway" (dict
      "urls" .Values.gateway.urls
      "cert_file" (printf "%s/tls.crt" $folder)
      "key_file" (printf "%s/tls.key" $folder)
      "ca_file" (printf "%s/ca.crt" $folder)
      "server_name" .Values.gateway.serverName
      "proxy" .Values.gateway.proxy) -}}
{{- if .Values.relay.enabled -}}
{{- $relay := dict "port" .Values.relay.port "client_names" .Values.relay.clientNames -}}
{{- if include "agent.asksForCertificate" . -}}
{{- $_ := set $relay "certificate" "csr" -}}
{{- $_ := set $relay "signer" .Values.relay.signer -}}
{{- $_ := set $relay "folder" "/tmp/kubelet-serving" -}}
{{- end -}}
{{- if .Values.relay.tlsSecret -}}
{{- $files := include "agent.relayFolder" . -}}
{{- $_ := set $relay "cert_file" (printf "%s/tls.crt" $files) -}}
{{- $_ := set $relay "key_file" (printf "%s/tls.key" $files) -}}
{{- end -}}
{{- $_ := set $own "relay" $relay -}}
{{- end -}}
{{- if not .Values.config.kubelet.account -}}
{{- $_ := set $own "kubelet" (dict "account" (printf "%s/%s" .Release.Namespace (include "agent.kubeletAccount" .))) -}}
{{- end -}}
{{- $links := merge (dict) (.Values.config.links | default dict) -}}
{{- $_ := set $links "pod_port" (include "agent.podPort" . | int) -}}
{{- merge $own (set (deepCopy .Values.config) "links" $links) | toYaml -}}
{{- end -}}

{{- define "agent.check" -}}
{{- if not .Values.cluster -}}
{{- fail "cluster: name this cluster as the dispatcher lists it, for example --set cluster=east" -}}
{{- end -}}
{{- if not .Values.gateway.urls -}}
{{- fail "gateway.urls: say where the dispatcher's gateway is, for example --set 'gateway.urls[0]=wss://dispatcher.example:7443'" -}}
{{- end -}}
{{- if and (include "agent.asksForCertificate" .) .Values.relay.tlsSecret -}}
{{- fail "relay.tlsSecret: is given, and relay.certificate is csr, which asks for another; leave one of them out" -}}
{{- end -}}
{{- $usual := dict "requests" (dict "cpu" "150m" "memory" "192Mi") "limits" (dict "memory" "2Gi") -}}{{- /* of values.yaml */ -}}
{{- if and (ne (include "agent.roles" .) "both") (ne (toJson (mergeOverwrite (deepCopy $usual) .Values.resources)) (toJson $usual)) -}}
{{- fail "resources: is of an agent in one process, and with gateway.split there are two: take it out, and say observer.resources and executor.resources" -}}
{{- end -}}
{{- $authority := (.Values.config.orders | default dict).authority -}}
{{- if and $authority (not (contains "BEGIN CERTIFICATE" $authority)) -}}
{{- fail "config.orders.authority: is no PEM certificate, so all orders would be refused: give the file's text, for example --set-file config.orders.authority=fleet/ca.crt" -}}
{{- end -}}
{{- if not (or .Values.serviceAccount.create .Values.serviceAccount.name) -}}
{{- $names := list -}}
{{- range $role := splitList " " (include "agent.roles" .) -}}{{- $names = append $names (include "agent.accountOf" (dict "root" $ "role" $role)) -}}{{- end -}}
{{- $names = append $names (include "agent.kubeletAccount" .) -}}
{{- fail (printf "serviceAccount.name: is empty, and serviceAccount.create is false: name the ServiceAccount of namespace %s that exists; for %s there must be %s" .Release.Namespace (include "agent.serviceAccount" .) (join " and " $names)) -}}
{{- end -}}
{{- with .Values.admissionPolicy.webhook -}}
{{- if and .tlsSecret (not .certManager.enabled) (not .caBundle) -}}
{{- fail "admissionPolicy.webhook.caBundle: say whom the API server trusts for the certificate in tlsSecret (PEM in base64), or leave tlsSecret empty" -}}
{{- end -}}
{{- if and .caBundle .certManager.enabled -}}
{{- fail "admissionPolicy.webhook.caBundle: is given, and certManager.enabled, which has cert-manager say whom to trust; leave one of them out" -}}
{{- end -}}
{{- if and .caBundle (not .tlsSecret) -}}
{{- fail "admissionPolicy.webhook.tlsSecret: name the Secret (tls.crt, tls.key) whose certificate caBundle is for, or leave caBundle empty: the chart makes both then" -}}
{{- end -}}
{{- if and .caBundle (not (contains "BEGIN CERTIFICATE" (b64dec .caBundle))) -}}
{{- fail "admissionPolicy.webhook.caBundle: is no PEM certificate in base64: give what `base64 -w0 ca.crt` prints" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.namespaces (include "agent.makesNamespaces" .) -}}
{{- fail "config.executor.namespaces.create: has namespaces made in which the agent may do nothing, as `namespaces` lists those where it may; leave one of them out" -}}
{{- end -}}
{{- range $half := list "give" "take" -}}
{{- range index ($.Values.secrets | default dict) $half -}}
{{- if and $.Values.namespaces (not (has . $.Values.namespaces)) -}}
{{- fail (printf "secrets.%s: has %s, and `namespaces` lists where the agent may act without it; name namespaces of that list" $half .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "agent.checkPorts" . -}}
{{- include "agent.checkEgress" . -}}
{{- end -}}

{{- /* "true" where namespaces are made; where empty ones are removed, too; where pods run as accounts of this cluster. */ -}}
{{- define "agent.makesNamespaces" -}}
{{- if ((.Values.config.executor).namespaces).create -}}true{{- end -}}
{{- end -}}

{{- define "agent.removesNamespaces" -}}
{{- if and (include "agent.makesNamespaces" .) .Values.config.executor.namespaces.remove_after_s -}}true{{- end -}}
{{- end -}}

{{- /* "true" where a row takes copies of Secrets. */ -}}
{{- define "agent.takesSecrets" -}}
{{- range (.Values.config.executor).accept -}}{{- if .secrets_follow -}}true{{- end -}}{{- end -}}
{{- end -}}

{{- define "agent.localAccounts" -}}
{{- $patterns := list -}}
{{- range (.Values.config.executor).accept -}}{{- $patterns = concat $patterns (.local_accounts | default list) -}}{{- end -}}
{{- if $patterns -}}{{- include "agent.regex" $patterns -}}{{- end -}}
{{- end -}}

{{- /* Of shell patterns, which the schema holds to letters, digits, - . * ? */ -}}
{{- define "agent.regex" -}}
^({{- range $at, $one := . -}}{{- if $at -}}|{{- end -}}{{- $one | replace "." "[.]" | replace "*" ".*" | replace "?" "." -}}{{- end -}})$
{{- end -}}

{{- /* What listens in one pod: no port can be of two. */ -}}
{{- define "agent.checkPorts" -}}
{{- $ports := dict "health.port" .Values.health.port -}}
{{- if .Values.metrics.enabled -}}{{- $_ := set $ports "metrics.port" .Values.metrics.port -}}{{- end -}}
{{- if include "agent.relays" . -}}{{- $_ := set $ports "relay.port" .Values.relay.port -}}{{- end -}}
{{- with include "agent.podPort" . | int -}}{{- $_ := set $ports "config.links.pod_port" . -}}{{- end -}}
{{- $taken := dict -}}
{{- range $name, $port := $ports -}}
{{- $number := int $port -}}
{{- with get $taken (toString $number) -}}{{- fail (printf "%s: %d is %s, too: give each a port of its own" $name $number .) -}}{{- end -}}
{{- $_ := set $taken (toString $number) $name -}}
{{- end -}}
{{- end -}}

{{- /* Whether the server knows a kind of admissionregistration.k8s.io/v1. */ -}}
{{- define "agent.admits" -}}
{{- if .root.Capabilities.APIVersions.Has (printf "admissionregistration.k8s.io/v1/%s" .kind) -}}yes{{- end -}}
{{- end -}}

{{- /* Of paths by key those that are in none of these folders, as JSON: (dict "paths" DICT "folders" LIST). */ -}}
{{- define "agent.outside" -}}
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

{{- /* Files of the configuration that are on no volume of the agent's, by key, as JSON. */ -}}
{{- define "agent.unmounted" -}}
{{- $folders := list "/tmp" "/run/secrets/kubernetes.io/serviceaccount" "/var/run/secrets/kubernetes.io/serviceaccount" (include "agent.keyFolder" .) (include "agent.gatewayFolder" .) -}}
{{- range .Values.extraVolumeMounts -}}{{- $folders = append $folders .mountPath -}}{{- end -}}
{{- $config := .Values.config -}}
{{- $paths := dict
      "config.kubelet.ca_file" ($config.kubelet | default dict).ca_file
      "config.orders.ca_file" ($config.orders | default dict).ca_file -}}
{{- range $kind := list "prometheus" "node_exporter" "load_watcher" "file" -}}
{{- range $at, $source := get ($config.telemetry | default dict) $kind | default list -}}
{{- $where := printf "config.telemetry.%s[%d]" $kind $at -}}
{{- range $key := list "token_file" "password_file" "ca_file" "cert_file" "key_file" "path" -}}
{{- $_ := set $paths (printf "%s.%s" $where $key) (get $source $key) -}}
{{- end -}}
{{- range $name, $path := $source.header_files -}}{{- $_ := set $paths (printf "%s.header_files.%s" $where $name) $path -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- include "agent.outside" (dict "paths" $paths "folders" $folders) -}}
{{- end -}}

{{- /* The port of a URL, or of HOST:PORT, which is a proxy's. */ -}}
{{- define "agent.portOf" -}}
{{- $host := regexReplaceAll "^[A-Za-z][A-Za-z0-9+.-]*://" . "" | splitList "/" | first -}}
{{- $secure := regexMatch "^(?i)(https|wss)://" . -}}
{{- regexFind ":[0-9]+$" $host | trimPrefix ":" | default (ternary "443" "80" $secure) -}}
{{- end -}}

{{- /* What the agent is told of its proxy by the environment: a name, and its value if that is known here. */ -}}
{{- define "agent.proxyVariables" -}}
{{- $found := list -}}
{{- if not .Values.gateway.proxy -}}
{{- range .Values.extraEnv -}}{{- if eq (lower .name) "https_proxy" -}}{{- $found = append $found . -}}{{- end -}}{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{- /* For a NetworkPolicy: all URLs that the values have this role ask, as JSON. (dict "root" $ "observes" BOOLEAN) */ -}}
{{- define "agent.asked" -}}
{{- $values := .root.Values -}}
{{- $urls := $values.gateway.urls -}}
{{- if $values.gateway.proxy -}}{{- $urls = append $urls $values.gateway.proxy -}}{{- end -}}
{{- range include "agent.proxyVariables" .root | fromJsonArray -}}
{{- if .value -}}{{- $urls = append $urls .value -}}{{- end -}}
{{- end -}}
{{- if .observes -}}
{{- $telemetry := $values.config.telemetry | default dict -}}
{{- range concat ($telemetry.prometheus | default list) ($telemetry.load_watcher | default list) -}}{{- $urls = append $urls .url -}}{{- end -}}
{{- end -}}
{{- toJson $urls -}}
{{- end -}}

{{- /* A NetworkPolicy is about addresses and ports, so what is not known here has to be said there. */ -}}
{{- define "agent.checkEgress" -}}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.egress) -}}
{{- range include "agent.proxyVariables" . | fromJsonArray -}}
{{- if not .value -}}
{{- fail (printf "extraEnv: the port of the proxy in %s is not known here, and networkPolicy.enabled lets nothing out to it: add a rule to networkPolicy.egress, such as {ports: [{protocol: TCP, port: 3128}]}, or name it as gateway.proxy" .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* How annotated pods get our schedulerName: v1 or v1beta1 of MutatingAdmissionPolicy, or webhook; empty: not at all. */ -}}
{{- define "agent.optIn" -}}
{{- if .Values.admissionPolicy.enabled -}}
{{- $kind := "MutatingAdmissionPolicy" -}}
{{- if ne .Values.admissionPolicy.by "auto" -}}{{ .Values.admissionPolicy.by }}
{{- else if include "agent.admits" (dict "root" . "kind" $kind) -}}v1
{{- else if .Capabilities.APIVersions.Has (printf "admissionregistration.k8s.io/v1beta1/%s" $kind) -}}v1beta1
{{- else -}}webhook
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "agent.webhookName" -}}
{{ include "agent.fullname" . }}-webhook
{{- end -}}

{{- define "agent.webhookSelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-webhook
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "agent.webhookSecret" -}}
{{- default (printf "%s-tls" (include "agent.webhookName" .)) .Values.admissionPolicy.webhook.tlsSecret -}}
{{- end -}}

{{- /* Which pods ask for us: matchConditions of policy and webhook alike. */ -}}
{{- define "agent.asksForUs" -}}
- name: asks-for-us
  expression: "object.metadata.?annotations[?'global-dispatcher.io/schedule'].orValue('') == 'true'"
- name: names-no-other-scheduler
  expression: "object.spec.?schedulerName.orValue('') in ['', 'default-scheduler']"
- name: has-no-node
  expression: "object.spec.?nodeName.orValue('') == ''"
{{- end -}}

{{- /* What must be kept off proxy nodes, how that is found: rules and matchConditions of policy and webhook alike. */ -}}
{{- define "agent.proxyNodeRules" -}}
- apiGroups: [""]
  apiVersions: [v1]
  operations: [CREATE]
  resources: [pods]
- apiGroups: [apps]
  apiVersions: [v1]
  operations: [CREATE, UPDATE]
  resources: [daemonsets]
{{- end -}}

{{- define "agent.wouldTakeProxyNodes" -}}
- name: tolerates-proxy-nodes
  expression: >-
    (object.kind == 'Pod' ? object.spec : object.spec.template.spec).?tolerations.orValue([]).exists(one,
    one.?key.orValue('') in ['', 'global-dispatcher.io/proxy'] && one.?effect.orValue('') in ['', 'NoSchedule'])
# Pods of DaemonSets are each for a node, and go by their DaemonSet.
- name: is-placed-by-others
  expression: >-
    object.kind != 'Pod' || (object.spec.?nodeName.orValue('') == ''
    && (object.metadata.?annotations[?'global-dispatcher.io/schedule'].orValue('') != 'true'
    || !(object.spec.?schedulerName.orValue('') in ['', 'default-scheduler']))
    && !object.spec.?schedulerName.orValue('').startsWith('global-dispatcher')
    && !object.metadata.?ownerReferences.orValue([]).exists(one, one.kind == 'DaemonSet'))
# Else a new label of a DaemonSet would replace all its pods.
- name: has-a-new-template
  expression: "object.kind == 'Pod' || oldObject == null || object.spec.template != oldObject.spec.template"
{{- end -}}
