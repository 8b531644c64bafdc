"""What becomes of each field of a pod in another cluster: stated here once, for Kubernetes 1.31 to
1.37.

By the API's types, beginning with Pod. A field that is not named belongs to a newer Kubernetes than
this table: a pod that has it stays where it is. `manifest` copies by this table, and
docs/reference/pod-fields.md is written from it.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from shared.model.names import PREFIX, TOPOLOGY_LABELS

SAME = "same"
RESOLVED = "resolved at home"
MAPPED = "mapped"
LEFT = "left behind"
REFUSED = "refused"
RUNNING_SIDE = "of the running side"
# the versions of Kubernetes that the table knows
OLDEST = "1.31"
NEWEST = "1.37"
ON_THE_NODE = "reaches into the node of another cluster"
NO_VOLUME = "is a volume that other clusters do not have"
UNKNOWN = (
    f"is no field that this version knows (Kubernetes {NEWEST}): what would become of it "
    "elsewhere is not known"
)
_NAMED = 80  # characters of an unknown field's name
_BY_DISPATCHER = "the dispatcher has heeded it for the whole fleet"
_OF_NODE = "the label of the node where it runs"
_ITS_OWN = "the delegate is an object of its own"


class ManifestError(ValueError):
    """The pod cannot run in another cluster; the text names the field and what to do."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(
            f"{field} {why}; remove it, or keep the pod at home with annotation {PREFIX}stay: "
            '"true"'
        )


class Decision(NamedTuple):
    """`how` is one of the words above, `why` says more for people, `of` is the type of what the
    field holds.
    """

    how: str
    why: str = ""
    of: str = ""


def _each(how: str, why: str, names: str) -> dict[str, Decision]:
    return {name: Decision(how, why) for name in names.split()}


def _same(names: str, **held: str) -> dict[str, Decision]:
    """Plain fields, and fields with the types that they hold."""
    return {**_each(SAME, "", names), **{name: Decision(SAME, of=of) for name, of in held.items()}}


_VOLUMES_OF_HOME = """
awsElasticBlockStore azureDisk azureFile cephfs cinder csi ephemeral fc flexVolume flocker gcePersistentDisk gitRepo
glusterfs iscsi nfs persistentVolumeClaim photonPersistentDisk portworxVolume quobyte rbd scaleIO storageos
vsphereVolume
"""
_ITEMS = _same("defaultMode defaultUser", items="KeyToPath")

_CONTAINER = {
    **_same(
        "args command image imagePullPolicy name restartPolicy stdin stdinOnce "
        "terminationMessagePath "
        "terminationMessagePolicy tty workingDir",
        env="EnvVar",
        envFrom="EnvFromSource",
        lifecycle="Lifecycle",
        livenessProbe="Probe",
        ports="ContainerPort",
        readinessProbe="Probe",
        resizePolicy="ContainerResizePolicy",
        resources="ResourceRequirements",
        restartPolicyRules="ContainerRestartRule",
        securityContext="SecurityContext",
        startupProbe="Probe",
        volumeMounts="VolumeMount",
    ),
    "volumeDevices": Decision(REFUSED, "are disks of its own cluster"),
}

TYPES: dict[str, dict[str, Decision]] = {
    "Pod": {
        **_same("apiVersion kind", metadata="ObjectMeta", spec="PodSpec"),
        "status": Decision(LEFT, "mirrored from the delegate"),
    },
    "ObjectMeta": {
        "name": Decision(MAPPED, "a name of its own; the container's hostname stays"),
        "namespace": Decision(SAME),
        "labels": Decision(
            SAME, "but those of controllers, and what the target's policy does not let in"
        ),
        "annotations": Decision(
            SAME, "but reserved ones, and what the target's policy does not let in"
        ),
        "ownerReferences": Decision(LEFT, "the controller is at home"),
        "finalizers": Decision(LEFT, "they hold the pod at home"),
        **_each(
            LEFT,
            _ITS_OWN,
            "uid generateName selfLink resourceVersion generation creationTimestamp "
            "deletionTimestamp "
            "deletionGracePeriodSeconds managedFields",
        ),
    },
    "PodSpec": {
        **_same(
            "activeDeadlineSeconds dnsPolicy enableServiceLinks hostnameOverride nodeSelector "
            "restartPolicy "
            "runtimeClassName setHostnameAsFQDN shareProcessNamespace subdomain "
            "terminationGracePeriodSeconds",
            containers="Container",
            dnsConfig="PodDNSConfig",
            hostAliases="HostAlias",
            initContainers="Container",
            os="PodOS",
            resources="ResourceRequirements",
            securityContext="PodSecurityContext",
            volumes="Volume",
        ),
        "affinity": Decision(SAME, of="Affinity"),
        "hostname": Decision(RESOLVED, "the name of the source pod, where it has none"),
        "imagePullSecrets": Decision(
            SAME, "where the target's policy lets them in", "LocalObjectReference"
        ),
        "tolerations": Decision(SAME, "but those that open nodes kept for others", "Toleration"),
        "serviceAccountName": Decision(
            LEFT,
            "unless the target's policy has the pod run as the account of that name there; but for "
            "`default`, it must say so, or that the pod runs without",
        ),
        "serviceAccount": Decision(LEFT, "an older name of serviceAccountName, and goes with it"),
        "automountServiceAccountToken": Decision(
            MAPPED,
            "false; with an account of the target, whether the pod has a token at home; true, if "
            "somebody wrote it, needs a row as an account does",
        ),
        "schedulerName": Decision(MAPPED, "nobody else places it"),
        "nodeName": Decision(MAPPED, "the node that was chosen"),
        "hostUsers": Decision(MAPPED, "false stays; true is left to the target"),
        "overhead": Decision(LEFT, "the RuntimeClass of the target says it"),
        "ephemeralContainers": Decision(
            SAME, "once the pod runs, as any container of its", "EphemeralContainer"
        ),
        "evictionResponders": Decision(
            REFUSED, "are asked before evictions by its own cluster alone"
        ),
        "readinessGates": Decision(
            REFUSED, "wait for conditions that controllers of its own cluster set"
        ),
        "resourceClaims": Decision(REFUSED, "are devices of its own cluster"),
        **_each(REFUSED, ON_THE_NODE, "hostNetwork hostPID hostIPC"),
        "priorityClassName": Decision(
            SAME, "where the target has that class, no higher than its policy lets in"
        ),
        **_each(LEFT, "the class of that name in the target says it", "priority preemptionPolicy"),
        **_each(
            LEFT,
            _BY_DISPATCHER,
            "schedulingGates schedulingGroup topologySpreadConstraints workloadRef",
        ),
    },
    "Affinity": {
        **_same("", nodeAffinity="NodeAffinity"),
        **_each(LEFT, _BY_DISPATCHER, "podAffinity podAntiAffinity"),
    },
    "NodeAffinity": _same(
        "",
        preferredDuringSchedulingIgnoredDuringExecution="PreferredSchedulingTerm",
        requiredDuringSchedulingIgnoredDuringExecution="NodeSelector",
    ),
    "PreferredSchedulingTerm": _same("weight", preference="NodeSelectorTerm"),
    "NodeSelector": _same("", nodeSelectorTerms="NodeSelectorTerm"),
    "NodeSelectorTerm": _same(
        "", matchExpressions="NodeSelectorRequirement", matchFields="NodeSelectorRequirement"
    ),
    "NodeSelectorRequirement": _same("key operator values"),
    "Toleration": _same("effect key operator tolerationSeconds value"),
    "PodDNSConfig": _same("nameservers searches", options="PodDNSConfigOption"),
    "PodDNSConfigOption": _same("name value"),
    "HostAlias": _same("hostnames ip"),
    "PodOS": _same("name"),
    "LocalObjectReference": _same("name"),
    "PodSecurityContext": _same(
        "fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser seLinuxChangePolicy "
        "supplementalGroups "
        "supplementalGroupsPolicy",
        appArmorProfile="AppArmorProfile",
        seLinuxOptions="SELinuxOptions",
        seccompProfile="SeccompProfile",
        sysctls="Sysctl",
        windowsOptions="WindowsSecurityContextOptions",
    ),
    "SecurityContext": {
        **_same(
            "allowPrivilegeEscalation procMount readOnlyRootFilesystem runAsGroup runAsNonRoot "
            "runAsUser",
            appArmorProfile="AppArmorProfile",
            capabilities="Capabilities",
            seLinuxOptions="SELinuxOptions",
            seccompProfile="SeccompProfile",
            windowsOptions="WindowsSecurityContextOptions",
        ),
        "privileged": Decision(REFUSED, ON_THE_NODE),
    },
    "AppArmorProfile": _same("localhostProfile type"),
    "Capabilities": _same("add drop"),
    "SELinuxOptions": _same("level role type user"),
    "SeccompProfile": _same("localhostProfile type"),
    "Sysctl": _same("name value"),
    "WindowsSecurityContextOptions": {
        **_same("gmsaCredentialSpec gmsaCredentialSpecName runAsUserName"),
        "hostProcess": Decision(REFUSED, ON_THE_NODE),
    },
    "Container": _CONTAINER,
    "EphemeralContainer": {**_CONTAINER, **_same("targetContainerName")},
    "ContainerPort": _same("containerPort hostIP hostPort name protocol"),
    "ContainerResizePolicy": _same("resourceName restartPolicy"),
    "ContainerRestartRule": _same("action", exitCodes="ContainerRestartRuleOnExitCodes"),
    "ContainerRestartRuleOnExitCodes": _same("operator values"),
    "ResourceRequirements": {
        **_same("limits requests"),
        "claims": Decision(REFUSED, "are devices of its own cluster"),
    },
    "EnvVar": _same("name value", valueFrom="EnvVarSource"),
    "EnvVarSource": {
        **_same(
            "",
            configMapKeyRef="ConfigMapKeySelector",
            fileKeyRef="FileKeySelector",
            resourceFieldRef="ResourceFieldSelector",
            secretKeyRef="SecretKeySelector",
        ),
        "fieldRef": Decision(
            RESOLVED, "see the fields of the downward API below", "ObjectFieldSelector"
        ),
    },
    "EnvFromSource": _same(
        "prefix", configMapRef="ConfigMapEnvSource", secretRef="SecretEnvSource"
    ),
    "ConfigMapEnvSource": _same("name optional"),
    "ConfigMapKeySelector": _same("key name optional"),
    "SecretEnvSource": _same("name optional"),
    "SecretKeySelector": _same("key name optional"),
    "FileKeySelector": _same("key optional path volumeName"),
    "ObjectFieldSelector": _same("apiVersion fieldPath"),
    "ResourceFieldSelector": _same("containerName divisor resource"),
    "Lifecycle": _same("stopSignal", postStart="LifecycleHandler", preStop="LifecycleHandler"),
    "LifecycleHandler": _same(
        "",
        exec="ExecAction",
        httpGet="HTTPGetAction",
        sleep="SleepAction",
        tcpSocket="TCPSocketAction",
    ),
    "Probe": _same(
        "failureThreshold initialDelaySeconds periodSeconds successThreshold "
        "terminationGracePeriodSeconds "
        "timeoutSeconds",
        exec="ExecAction",
        grpc="GRPCAction",
        httpGet="HTTPGetAction",
        tcpSocket="TCPSocketAction",
    ),
    "ExecAction": _same("command"),
    "GRPCAction": _same("mode port service"),
    "HTTPGetAction": _same("host path port protocol scheme", httpHeaders="HTTPHeader"),
    "HTTPHeader": _same("name value"),
    "SleepAction": _same("seconds"),
    "TCPSocketAction": _same("host port"),
    "VolumeMount": _same(
        "bindMountOptions mountPath mountPropagation name readOnly recursiveReadOnly subPath "
        "subPathExpr"
    ),
    "Volume": {
        **_same(
            "name",
            configMap="ConfigMapVolumeSource",
            downwardAPI="DownwardAPIVolumeSource",
            emptyDir="EmptyDirVolumeSource",
            image="ImageVolumeSource",
            projected="ProjectedVolumeSource",
        ),
        "secret": Decision(SAME, "where the target's policy lets it in", "SecretVolumeSource"),
        "hostPath": Decision(REFUSED, ON_THE_NODE),
        **_each(REFUSED, NO_VOLUME, _VOLUMES_OF_HOME),
    },
    "ConfigMapVolumeSource": {**_ITEMS, **_same("name optional")},
    "SecretVolumeSource": {**_ITEMS, **_same("secretName optional")},
    "DownwardAPIVolumeSource": _same("defaultMode defaultUser", items="DownwardAPIVolumeFile"),
    "EmptyDirVolumeSource": _same("medium mode sizeLimit"),
    "ImageVolumeSource": _same("pullPolicy reference"),
    "ProjectedVolumeSource": _same("defaultMode defaultUser", sources="VolumeProjection"),
    "KeyToPath": _same("key mode path user"),
    "DownwardAPIVolumeFile": {
        **_same("mode path user", resourceFieldRef="ResourceFieldSelector"),
        "fieldRef": Decision(
            RESOLVED, "see the fields of the downward API below", "ObjectFieldSelector"
        ),
    },
    "VolumeProjection": {
        **_same(
            "",
            configMap="ConfigMapProjection",
            downwardAPI="DownwardAPIProjection",
        ),
        "secret": Decision(SAME, "where the target's policy lets it in", "SecretProjection"),
        "serviceAccountToken": Decision(
            SAME,
            "where the target's policy lets the account in; what admission adds "
            "(`kube-api-access-*`) is left behind, and made there where that lends the account",
            "ServiceAccountTokenProjection",
        ),
        "podCertificate": Decision(REFUSED, "is a certificate that its own cluster gives"),
        "clusterTrustBundle": Decision(REFUSED, "names certificates that its own cluster trusts"),
    },
    "ConfigMapProjection": _same("name optional", items="KeyToPath"),
    "SecretProjection": _same("name optional", items="KeyToPath"),
    "ServiceAccountTokenProjection": _same("audience expirationSeconds path user"),
    "DownwardAPIProjection": _same("", items="DownwardAPIVolumeFile"),
}

# What `fieldRef.fieldPath` may name, in environment and files; X is any key.
FIELD_PATHS: dict[str, Decision] = {
    "metadata.namespace": Decision(SAME, "a namespace of one name is one"),
    **_each(RESOLVED, "as the source has it", "metadata.name metadata.uid spec.serviceAccountName"),
    **_each(
        RESOLVED, "empty only where it is at home", "metadata.labels['X'] metadata.annotations['X']"
    ),
    **_each(
        RESOLVED, "all but what our agents write there", "metadata.labels metadata.annotations"
    ),
    **{f"metadata.labels['{key}']": Decision(RUNNING_SIDE, _OF_NODE) for key in TOPOLOGY_LABELS},
    "spec.nodeName": Decision(RUNNING_SIDE, "the node where it runs, not the proxy node"),
    "spec.host": Decision(RUNNING_SIDE, "an older name of spec.nodeName"),
    **_each(
        RUNNING_SIDE,
        "the addresses that it has",
        "status.podIP status.podIPs status.hostIP status.hostIPs",
    ),
}


def walk_types(kind: str = "Pod", field: str = "") -> Iterator[tuple[str, Decision]]:
    """Every field below a type, as people write it, and its decision."""
    for name, decision in TYPES[kind].items():
        here = f"{field}.{name}" if field else name
        yield here, decision
        if decision.of:
            yield from walk_types(decision.of, here)


def copied(value: Any, kind: str, field: str) -> Any:
    """What crosses of a value of this type, a list of them included; `field` is what people call
    it.

    ManifestError for a field that is refused or that the table does not know.
    """
    if isinstance(value, list):
        return [_object(one, kind, f"{field}[{index}]") for index, one in enumerate(value)]
    return _object(value, kind, field)


def _object(value: dict[str, Any], kind: str, field: str) -> dict[str, Any]:
    clean: dict[str, Any] = {}
    for name, inner in value.items():
        if inner is None:
            continue
        decision = TYPES[kind].get(name)
        if decision is None:
            raise ManifestError(f"{field}.{name[:_NAMED]}", UNKNOWN)
        if decision.how in (SAME, RESOLVED):
            clean[name] = copied(inner, decision.of, f"{field}.{name}") if decision.of else inner
        elif decision.how == REFUSED and _is_set(inner):
            raise ManifestError(f"{field}.{name}", decision.why)
    return clean


def _is_set(value: Any) -> bool:
    """Whether a field says more than that it is not used."""
    return value not in (None, False, "", 0) and value != []
