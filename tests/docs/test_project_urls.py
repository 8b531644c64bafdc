"""Where the project lives is said in pyproject.toml; whatever must say it, too, says the same.

Everything else links by path: a move changes `[project.urls]`, and what fails here.
"""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SOURCE: str = PROJECT["urls"]["Source"]
ORGANISATION, NAME = SOURCE.removeprefix("https://github.com/").split("/")
CHARTS = ("helm/agent/Chart.yaml", "helm/dispatcher/Chart.yaml")
# These cannot read it from pyproject.toml; the tests below hold them to it.
REPEATED = {"pyproject.toml", "mkdocs.yml", ".github/ISSUE_TEMPLATE/config.yml", *CHARTS}
_OURS = re.compile(rf"github\.com/[\w.-]+/{NAME}\b|[\w-]+\.github\.io/{NAME}\b")


def tracked() -> list[str]:
    """All files of the repository."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if (ROOT / name).is_file()]


def test_the_addresses_of_the_package_are_of_one_repository() -> None:
    assert PROJECT["urls"] == {
        "Homepage": SOURCE,
        "Documentation": f"https://{ORGANISATION}.github.io/{NAME}/",
        "Source": SOURCE,
        "Issues": f"{SOURCE}/issues",
        "Changelog": f"{SOURCE}/blob/main/CHANGELOG.md",
    }


def test_the_site_links_to_that_repository() -> None:
    assert yaml.safe_load((ROOT / "mkdocs.yml").read_text())["repo_url"] == SOURCE


def test_faults_of_security_are_reported_there() -> None:
    (link,) = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE/config.yml").read_text())["contact_links"]
    assert link["url"] == f"{SOURCE}/security/advisories/new"


def test_owners_of_code_are_teams_of_that_organisation() -> None:
    teams = re.findall(r"@([\w-]+)/", (ROOT / ".github/CODEOWNERS").read_text())
    assert set(teams) == {ORGANISATION}


def test_no_other_file_names_the_repository() -> None:
    try:
        names = tracked()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no git checkout")
    assert {name for name in names if _OURS.search((ROOT / name).read_text(errors="replace"))} == REPEATED


@pytest.mark.parametrize("chart", CHARTS)
def test_a_chart_names_the_site_and_the_source(chart: str) -> None:
    stated = yaml.safe_load((ROOT / chart).read_text())
    assert (stated["home"], stated["sources"]) == (PROJECT["urls"]["Documentation"], [SOURCE])
