{{- /* The Services of the gateway, one for each connection that an agent keeps: names, in the order of the hosts. */ -}}
{{- define "dispatcher.gatewayServices" -}}
{{- range $number := until (int .Values.replicas) }}
{{ include "dispatcher.fullname" $ }}-gateway{{ with $number }}-{{ . }}{{ end }}
{{- end }}
{{- end -}}

{{- /* Whether the cluster's ingress leads to the gateway; fails where it could not. */ -}}
{{- define "dispatcher.passthrough" -}}
{{- with .Values.gateway.passthrough -}}
{{- if or .ingress.enabled .tlsRoute.enabled -}}
{{- if not (include "dispatcher.dialledIn" $) -}}
{{- fail "gateway.passthrough: none of config.clusters has `via: gateway`, so no agent dials in" -}}
{{- end -}}
{{- $services := include "dispatcher.gatewayServices" $ | trim | splitList "\n" -}}
{{- if ne (len $services) (len .hosts) -}}
{{- fail (printf "gateway.passthrough.hosts: has %d, and the gateway has the Services %s: name a host for each" (len .hosts) (join ", " $services)) -}}
{{- end -}}
{{- if ne (len .hosts) (len (uniq .hosts)) -}}
{{- fail (printf "gateway.passthrough.hosts: %s: agents keep a connection to each dispatcher, so each needs a host of its own" (join ", " .hosts)) -}}
{{- end -}}
yes
{{- end -}}
{{- end -}}
{{- end -}}
