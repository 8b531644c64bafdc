"""A KubeSchedulerConfiguration document as our profiles, and what of it means nothing here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic.alias_generators import to_camel

from dispatcher.config.document import Document
from dispatcher.config.kube_scheduler.args import converted
from dispatcher.config.kube_scheduler.merge import ALL, DEFAULTS, Switched, switched
from dispatcher.config.kube_scheduler.sections import PROCESS_KEYS, KubeConfiguration, KubeProfile
from dispatcher.config.problems import UNKNOWN_PLUGIN, ConfigError, Path, Problem
from dispatcher.config.validation import validated
from dispatcher.plugins.registry import PluginContext, PluginSpec
from dispatcher.scheduling.framework import PluginUse, Profile
from dispatcher.scheduling.framework.plugin_args import check_args, did_you_mean, shown
from shared.model.names import SCHEDULER_NAME

KIND = "KubeSchedulerConfiguration"
# Rules of the fleet itself: on unless a profile disables them by name.
OF_THE_FLEET = (
    *("TenantPriority", "TenantQuota", "TenantNodes", "TenantNodeQuota"),
    *("ClusterAllowed", "ClusterRefused", "NamespaceOpen", "NodeReady"),
)
# kube-scheduler's names of plugins that have another name here.
OUR_NAMES = {"PodTopologySpread": "FaultDomainSpread"}
# Done by the way of a pod itself, whatever a profile says.
BUILT_IN = frozenset(("DefaultBinder", "SchedulingGates"))
# What kube-scheduler takes for arguments that are not given, where that is not our default.
DEFAULT_ARGS = {"PodTopologySpread": {"defaulting": "System"}}
NOT_HERE = {"GangScheduling": "pod groups are not scheduled as gangs"}
_SCORES = frozenset(("Score", "PreScore", "NormalizeScore"))


@dataclass(frozen=True)
class KubeScheduler:
    """What a file says, in our words. `notes`: keys that mean nothing here. Back-offs in seconds,
    None: not given.
    """

    profiles: tuple[Profile, ...]
    notes: tuple[Problem, ...]
    backoff_first_s: float | None
    backoff_longest_s: float | None


def is_kube_scheduler(document: Document) -> bool:
    """Whether a document says that it is one of these."""
    return isinstance(document.data, Mapping) and document.data.get("kind") == KIND


def read_kube_scheduler(document: Document, registry: Mapping[str, PluginSpec]) -> KubeScheduler:
    """The profiles of a document; ConfigError with everything that is wrong with it or not
    supported.
    """
    problems: list[Problem] = []
    read = validated(KubeConfiguration, document, problems)
    notes = list(_notes(read, document))
    if read.extenders:
        problems.append(
            document.problem(("extenders",), "extenders are not supported: write a plugin instead")
        )
    reader = _Reader(document, registry, problems)
    given = read.profiles or (KubeProfile(),)
    profiles = [
        reader.profile(one, ("profiles", at), alone=len(given) == 1) for at, one in enumerate(given)
    ]
    if problems:
        raise ConfigError(problems)
    return KubeScheduler(
        tuple(profiles),
        tuple(notes),
        read.pod_initial_backoff_seconds,
        read.pod_max_backoff_seconds,
    )


def _notes(read: KubeConfiguration, document: Document) -> Iterable[Problem]:
    for key in PROCESS_KEYS:
        if key in read.model_fields_set:
            yield document.problem(
                (to_camel(key),), "is about the process of kube-scheduler: has no meaning here"
            )
    places: list[tuple[Path, int | None]] = [((), read.percentage_of_nodes_to_score)]
    places += [
        (("profiles", at), one.percentage_of_nodes_to_score) for at, one in enumerate(read.profiles)
    ]
    for path, percentage in places:
        if percentage not in (None, 100):
            where: Path = (*path, "percentageOfNodesToScore")
            yield document.problem(
                where, "has no meaning here: all feasible nodes are scored, always"
            )


class _Reader:
    """Reads profile after profile; whatever is wrong goes into `problems`."""

    def __init__(
        self, document: Document, registry: Mapping[str, PluginSpec], problems: list[Problem]
    ) -> None:
        self._document = document
        self._registry = registry
        self._problems = problems

    def profile(self, given: KubeProfile, path: Path, *, alone: bool) -> Profile:
        """One profile: the default plugins, what it changes, and the rules of the fleet."""
        self._check_names(given, path)
        args = self._args(given, path)
        on = switched(given.plugins, self._points)
        used = [self._use(one, args, path) for one in on if self._known(one.name) is not None]
        off = {one.name for one in given.plugins.multi_point.disabled}
        fleet = [PluginUse(name) for name in OF_THE_FLEET if name not in off]
        uses = [use for use in used if use is not None and use.name not in OF_THE_FLEET]
        front = [use for use in uses if "QueueSort" in self._registry[use.name].points]
        rest = [use for use in uses if use not in front]
        return Profile(self._scheduler_name(given, path, alone=alone), (*front, *fleet, *rest))

    def _scheduler_name(self, given: KubeProfile, path: Path, *, alone: bool) -> str:
        name = given.scheduler_name
        if name == SCHEDULER_NAME or name.startswith(f"{SCHEDULER_NAME}-"):
            return name
        if name or not alone:
            text = (
                f"must be {SCHEDULER_NAME} or {SCHEDULER_NAME}-..., the pods of which the agents "
                "hand over"
            )
            self._say((*path, "schedulerName"), f"{text}, not {shown(name)}")
        return SCHEDULER_NAME

    # --- plugins
    # ----------------------------------------------------------------------------------------------

    def _known(self, name: str) -> PluginSpec | None:
        """The plugin behind one of kube-scheduler's names, or behind one of ours."""
        return self._registry.get(name) or self._registry.get(OUR_NAMES.get(name, ""))

    def _points(self, name: str) -> Iterable[str]:
        spec = self._known(name)
        return () if spec is None else spec.points

    def _check_names(self, given: KubeProfile, path: Path) -> None:
        """Every plugin that the file switches must be one; those that are on by default need no
        word.
        """
        default = {name for name, _ in DEFAULTS}
        for key in type(given.plugins).model_fields:
            plugins = getattr(given.plugins, key)
            for kind, listed in (("enabled", plugins.enabled), ("disabled", plugins.disabled)):
                for at, one in enumerate(listed):
                    here = (*path, "plugins", to_camel(key), kind, at, "name")
                    if one.name == ALL and kind == "disabled":
                        continue
                    if self._known(one.name) is None and one.name not in default:
                        self._say(here, self._unknown(one.name))

    def _unknown(self, name: str) -> str:
        if name in NOT_HERE:
            return f"{name} is not supported: {NOT_HERE[name]}"
        return f"{UNKNOWN_PLUGIN} {shown(name)}{did_you_mean(name, self._registry)}"

    def _use(
        self, one: Switched, args: Mapping[str, Mapping[str, object]], path: Path
    ) -> PluginUse | None:
        spec = self._known(one.name)
        if spec is None or not one.points:
            return None
        hard = set(spec.points) - _SCORES
        if one.points & hard not in (set(), hard):
            off = ", ".join(sorted(hard - one.points))
            self._say(
                (*path, "plugins"),
                f"{one.name} is off at {off} alone: a plugin's rules are on or off together",
            )
        if hard and not one.points & hard:
            if "Score" in one.points:
                self._say(
                    (*path, "plugins"),
                    f"{one.name} cannot score without its rules: disable score, too",
                )
            return None
        weight = float(one.weight) if "Score" in spec.points else 1.0
        given = {**DEFAULT_ARGS.get(one.name, {}), **args.get(one.name, {})}
        return PluginUse(spec.plugin.name, weight, given)

    # --- arguments
    # ----------------------------------------------------------------------------------------------

    def _args(self, given: KubeProfile, path: Path) -> dict[str, Mapping[str, object]]:
        found: dict[str, Mapping[str, object]] = {}
        for at, one in enumerate(given.plugin_config):
            here = (*path, "pluginConfig", at)
            spec = self._known(one.name)
            if one.name in found:
                self._say((*here, "name"), f"{one.name} is listed twice")
            elif spec is None and one.name not in BUILT_IN:
                self._say((*here, "name"), self._unknown(one.name))
            elif spec is not None:
                found[one.name] = self._checked(one.name, spec, one.args, (*here, "args"))
        return found

    def _checked(
        self, name: str, spec: PluginSpec, args: Mapping[str, object], path: Path
    ) -> Mapping[str, object]:
        read, wrong = converted(name, args)
        ours = {**DEFAULT_ARGS.get(name, {}), **read}
        for key, text in wrong:
            self._say((*path, key), text)
        values, problems = check_args(spec.arguments, ours)
        for problem in problems:
            self._say((*path, problem.key), problem.text)
        if not wrong and not problems:
            try:
                spec.make_checked(values, PluginContext())
            except ValueError as error:
                self._say(path, str(error))
        return ours

    def _say(self, path: Path, text: str) -> None:
        self._problems.append(self._document.problem(path, text))
