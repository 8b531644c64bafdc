"""What is told of an answer that is not 2xx."""

from shared.kube.http import Response
from shared.kube.verdicts import error_text


def test_why_no_answer_came_is_told_to_its_end() -> None:
    request = "GET /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/global-dispatcher-agent.state: "
    why = (
        "AccessError: cannot use context 'eest' of /etc/global-dispatcher/kubeconfig: no such context in contexts list"
    )
    assert error_text(Response(0, (request + why).encode())).endswith("no such context in contexts list)")


def test_the_page_of_a_proxy_is_cut() -> None:
    assert len(error_text(Response(502, b"<html>" * 1000))) < 250
