"""A core of one cluster with tenants, whose file may change."""

from functools import partial

from structlog.testing import capture_logs

from dispatcher.plugins.registry import PluginContext, build, queue_sort
from dispatcher.scheduling.core.reload import take_profiles
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.service.files.changed_tenants import changed_tenants
from shared.model.tenant import Share, Tenant
from tests.builders import node, pod
from tests.scheduling.one_cluster import OneCluster


def tenant(name: str, *namespaces: str, cpu: int | None = None, parent: str = "", **more: object) -> Tenant:
    nominal = {} if cpu is None else {"cpu": Share(absolute=1000 * cpu)}
    return Tenant(name, namespaces or (name,), nominal, parent=parent, **more)  # type: ignore[arg-type]


class World(OneCluster):
    """Room for 100 CPUs."""

    def __init__(self, *tenants: Tenant) -> None:
        self.ledger = QuotaLedger(tenants)
        super().__init__(self.ledger)
        self.report(full=True, nodes=(node("n1").cpu(100).memory("200Gi").pods(500).build(),))

    def come(self, namespace: str, *names: str, **labels: str) -> None:
        self.submit(*(pod(name).namespace(namespace).labels(**labels).cpu(1).build() for name in names))
        self.tick()

    def change(self, *tenants: Tenant) -> list[str]:
        """As the service does; the lines that it logs."""
        made = partial(build, DEFAULT_PROFILE, PluginContext(quota=self.ledger))
        plugins = made()
        profiles = Profiles([Scheduler(DEFAULT_PROFILE, plugins, self.core.fleet, anew=made)])
        with capture_logs() as logs, changed_tenants(tenants, self.ledger, self.core.fleet):
            take_profiles(self.core, profiles, queue_sort(plugins), self.now)
        self.tick(60.0)
        return [line["what"] for line in logs if "what" in line]

    def running(self) -> set[str]:
        return {name for name, one in self.pods.items() if one.node}

    def cpus(self, name: str) -> int:
        return self.ledger.usage(name).get("cpu", 0) // 1000
