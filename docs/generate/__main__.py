"""Write the pages, and what charts have that is made of code: `python -m docs.generate`."""

from collections.abc import Callable
from pathlib import Path

from docs.generate import (
    chart,
    chart_crossing,
    chart_readme,
    configuration,
    dashboard,
    keys,
    metrics,
    plugins,
    pod_fields,
    reasons,
    transitions,
)

FOLDER = Path(__file__).parents[1] / "reference"
PAGES: dict[str, Callable[[], str]] = {
    "annotations.md": keys.render,
    "configuration.md": configuration.render,
    "metrics.md": metrics.render,
    "plugins.md": plugins.render,
    "pod-fields.md": pod_fields.render,
    "reasons.md": reasons.render,
}


def main() -> None:
    """All pages, and what charts have of the same."""
    for name, render in PAGES.items():
        (FOLDER / name).write_text(render())
    transitions.FILE.write_text(transitions.with_states(transitions.FILE.read_text()))
    dashboard.FILE.write_text(dashboard.render())
    for name in chart_readme.NAMES:
        (chart_readme.CHARTS / name / "README.md").write_text(chart_readme.render(name))
    chart_crossing.FILE.write_text(chart_crossing.render())
    chart.SCHEMA.write_text(chart.with_arguments(chart.SCHEMA.read_text()))


if __name__ == "__main__":
    main()
