"""Names of images that no kubelet takes, with its words: the grammar of distribution/reference, in
Kubernetes 1.37.
"""

import json
import re

_DEFAULT_DOMAIN = "docker.io"
_OFFICIAL = "library/"
_LONGEST = 255
_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_PATH = rf"{_PART}(?:/{_PART})*"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE = re.compile(
    rf"(?:{_DOMAIN}/)?(?P<path>{_PATH})(?::\w[\w.-]{{0,127}})?(?:@(?P<digest>{_DIGEST}))?", re.ASCII
)
_IDENTIFIER = re.compile("[a-f0-9]{64}")
_DIGITS = {"sha256": 64, "sha384": 96, "sha512": 128}


def misnamed(image: str) -> str:
    """Why a container of this image is not started, '' if the name is well-formed."""
    problem = _problem(image)
    named = json.dumps(image, ensure_ascii=False)
    return (
        problem
        and f"Failed to apply default image tag {named}: couldn't parse image name {named}: "
        f"{problem}"
    )


def _problem(image: str) -> str:
    if _IDENTIFIER.fullmatch(image):
        return f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings"
    domain, rest = _split(image)
    remote = rest.partition(":")[0]
    if remote.lower() != remote:
        return f"invalid reference format: repository name ({remote}) must be lowercase"
    whole = f"{domain}/{rest}"
    found = _REFERENCE.fullmatch(whole)
    if found is None:
        lower = _REFERENCE.fullmatch(whole.lower())
        return "repository name must be lowercase" if lower else "invalid reference format"
    if len(found["path"]) > _LONGEST:
        return f"repository name must not be more than {_LONGEST} characters"
    return _problem_of_digest(found["digest"]) if found["digest"] else ""


def _split(image: str) -> tuple[str, str]:
    """The registry, and what follows it: what comes before a slash is a registry only where it
    looks like one.
    """
    first, slash, rest = image.partition("/")
    if not slash:
        return _DEFAULT_DOMAIN, f"{_OFFICIAL}{image}"
    if first == "index.docker.io":
        first = _DEFAULT_DOMAIN
    elif not (first == "localhost" or "." in first or ":" in first or first.lower() != first):
        first = _DEFAULT_DOMAIN
        rest = image
    return first, rest if first != _DEFAULT_DOMAIN or "/" in rest else f"{_OFFICIAL}{rest}"


def _problem_of_digest(digest: str) -> str:
    kind, _, digits = digest.partition(":")
    if kind not in _DIGITS:
        lower = re.fullmatch(r"[a-z0-9]+(?:[.+_-][a-z0-9]+)*", kind)
        return "unsupported digest algorithm" if lower else "invalid checksum digest format"
    if len(digits) != _DIGITS[kind]:
        return "invalid checksum digest length"
    return "" if digits == digits.lower() else "invalid checksum digest format"
