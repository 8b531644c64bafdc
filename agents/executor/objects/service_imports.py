"""Services that this cluster has by the Multi-Cluster Services API (ServiceImport), of the same names.

https://github.com/kubernetes-sigs/mcs-api
"""

from urllib.parse import quote

from agents.executor.objects import pages
from agents.executor.objects.pages import ListError
from agents.executor.objects.reads import read_object
from agents.executor.objects.service_content import Content
from shared.kube.http import FORBIDDEN, Procedure

_IMPORTS = "/apis/multicluster.x-k8s.io/v1alpha1"


def served(namespace: str, content: Content) -> Procedure[set[str]]:
    """Names that the Multi-Cluster Services API serves here; none where that is not served, or not
    ours to read.
    """
    found: set[str] = set()
    if not content.services:
        return found

    def take(item: bytes) -> None:
        found.add(read_object(item).metadata.name)

    of = f"{_IMPORTS}/namespaces/{quote(namespace, safe='')}/serviceimports"
    try:
        yield from pages.each(of, take)
    except ListError as error:
        if not pages.none_there(error) and error.status != FORBIDDEN:
            raise
    return found
