"""How amounts are read, stored and shown, the absurd ones too: what agents will one day get to read."""

import pytest

from tests.contract.client import Answer, Api, pod

PLAIN = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX = "unable to parse quantity's suffix"


async def ask(api: Api, amount: object) -> Answer:
    container = {"name": "a", "image": "b", "resources": {"requests": {"memory": amount}}}
    return await api.post(api.at("pods"), pod(spec={"containers": [container]}), dryRun="All")


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        *(("0", "0"), ("1", "1"), ("00", "0"), ("0m", "0"), ("0Ki", "0"), ("1000", "1k"), ("1001", "1001")),
        *(("0.5", "500m"), ("1.5", "1500m"), ("0.1", "100m"), ("1.50", "1500m"), ("1.0", "1")),
        *(("100m", "100m"), ("1000m", "1"), ("1500m", "1500m"), ("1m", "1m")),
        *(("0.0001", "1m"), ("1n", "1m"), ("1u", "1m"), ("1000000n", "1m"), ("1e-3", "1e-3")),
        *(("1k", "1k"), ("1000k", "1M"), ("1M", "1M"), ("1G", "1G"), ("1E", "1E"), ("10E", "10E")),
        *(("1Ki", "1Ki"), ("1024Mi", "1Gi"), ("1000Mi", "1000Mi"), ("1.5Gi", "1536Mi"), ("0.1Ki", "102400m")),
        *(("1.1Ki", "1126400m"), ("3.14159Mi", "3294195876m"), ("1048576", "1048576"), ("8Ei", "9223372036854775807")),
        *(("1e3", "1e3"), ("1E3", "1E3"), ("1e6", "1e6"), ("1e0", "1e0"), ("1e19", "10e18"), ("4.5e1", "4.5e1")),
        *(("9223372036854775807", "9223372036854775807"), ("9223372036854775808", "9223372036854775808")),
        *(("1e100", "10e99"), ("1e1000000", "10e999999"), ("1e-100", "1e-3"), ("9" * 100, "9" * 100)),
        *(("+1", "+1"), ("01", "01"), ("007", "007"), ("1.", "1."), ("1 ", "1")),
        *(("e3", "0"), ("Ki", "0"), (".5", "500m")),
    ],
    ids=lambda value: value[:20],
)  # fmt: skip
async def test_an_amount_is_stored(default: Api, text: str, stored: str) -> None:
    made = (await ask(default, text)).ok()
    assert made["spec"]["containers"][0]["resources"]["requests"]["memory"] == stored


@pytest.mark.parametrize(("number", "stored"), [(1, "1"), (1.5, "1500m"), (1e20, "100e18"), (1e-7, "1e-3")])
async def test_a_number_is_an_amount(default: Api, number: float, stored: str) -> None:
    made = (await ask(default, number)).ok()
    assert made["spec"]["containers"][0]["resources"]["requests"]["memory"] == stored


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *(("", PLAIN), ("1.5.5", PLAIN), ("0x10", PLAIN), ("1_000", PLAIN), ("abc", PLAIN)),
        *(("\u0661", PLAIN), ("NaN", PLAIN)),
        *(("1e", SUFFIX), ("1e+", SUFFIX), ("1kB", PLAIN), ("1K", SUFFIX), ("1mi", SUFFIX), ("1e3Ki", PLAIN)),
        *(("1i", SUFFIX), ("--1", SUFFIX)),
    ],
    ids=lambda value: value[:20],
)  # fmt: skip
async def test_text_that_is_no_amount_is_a_400(default: Api, text: str, why: str) -> None:
    answer = await ask(default, text)
    assert (answer.status, answer.message) == (400, f'Pod in version "v1" cannot be handled as a Pod: {why}')


@pytest.mark.parametrize("value", [[], {}, True], ids=str)
async def test_what_is_neither_text_nor_number_is_a_400(default: Api, value: object) -> None:
    assert (await ask(default, value)).status == 400


@pytest.mark.parametrize(
    ("requests", "limits", "status"),
    [
        ("1", "1", 201),
        ("1000m", "1", 201),
        ("1001m", "1", 422),
        ("20E", "10E", 422),
        ("10E", "20E", 201),
        ("1e100", "1", 422),
        ("-1", "1", 422),
    ],
)
async def test_a_request_may_not_exceed_its_limit(default: Api, requests: str, limits: str, status: int) -> None:
    amounts = {"requests": {"cpu": requests}, "limits": {"cpu": limits}}
    body = pod(spec={"containers": [{"name": "a", "image": "b", "resources": amounts}]})
    assert (await default.post(default.at("pods"), body, dryRun="All")).status == status
