"""What Artifact Hub shows of a chart: its images, what the release changes, where more is.

`packed_charts` writes it into the Chart.yaml of an archive. In the tree there is what holds for
every release: license, category, keywords. What changed is that of CHANGELOG.md about charts.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

KINDS: Final = ("added", "changed", "deprecated", "removed", "fixed", "security")
"""Of changes, as Artifact Hub knows them: the headings of a section, in small letters."""
SUBJECT: Final = "Charts"
ICON: Final = "charts/icon.svg"
IMAGES: Final = {"bookie-operator": ("operator",), "bookie-cluster": ("bookie", "repair")}
"""By chart; those of a BookieCluster are its own values."""
LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]*\)")


def changes(notes: str) -> list[dict[str, str]]:
    """Of the charts, from the notes of a release."""
    found = []
    for section in re.split(r"^### ", notes, flags=re.MULTILINE)[1:]:
        kind = section.partition("\n")[0].strip().lower()
        bullets = re.findall(rf"^- \*\*{SUBJECT}\*\*: ((?:.|\n(?!- |\n))+)", section, re.MULTILINE)
        for text in bullets:
            words = LINK.sub(r"\1", " ".join(text.split())).replace("`", "").replace("**", "")
            found.append({"kind": kind, "description": words})
    return found


def annotated(
    chart: Mapping[str, Any], notes: str, digests: Mapping[str, str], source: str
) -> dict[str, Any]:
    """The chart's metadata with all of it. `source`: URL of the repository; empty = not known, and
    then there is no icon and no link."""
    version, name = chart["version"], chart["name"]
    images = [
        {"name": image, "image": f"bookie-operator/{image}:{version}{_at(digests.get(image))}"}
        for image in IMAGES[name]
    ]
    annotations = {**chart.get("annotations", {}), "artifacthub.io/images": _text(images)}
    if about_charts := changes(notes):
        annotations["artifacthub.io/changes"] = _text(about_charts)
    if not source:
        return {**chart, "annotations": annotations}
    at = f"{source}/blob/v{version}"
    links = [
        {"name": "How it is installed", "url": f"{at}/docs/kubernetes.md"},
        {"name": "What is safe, and what is not", "url": f"{at}/docs/safety.md"},
    ]
    annotations["artifacthub.io/links"] = _text(links)
    icon = f"{source}/raw/v{version}/{ICON}"
    of_repository = {"home": source, "sources": [source], "icon": icon}
    return {**chart, **of_repository, "annotations": annotations}


def _at(digest: str | None) -> str:
    return f"@{digest}" if digest else ""


def _text(value: object) -> str:
    """Annotations are texts: a document of YAML each."""
    return yaml.safe_dump(value, sort_keys=False, width=100)
