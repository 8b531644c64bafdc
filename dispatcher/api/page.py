"""The status page: clusters and pods as plain server-rendered HTML, no script, no asset from
elsewhere.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

Row = Mapping[str, Any]

_STYLE = """
:root { color-scheme: light dark; }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; font-size: .75rem; letter-spacing: .04em; text-transform: uppercase; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent); }
.wide { overflow-x: auto; }
.word { white-space: nowrap; }
"""
MOST_PODS = 500
_MOST_KEPT = 100
_NAMED = 3  # Services in one line


def render_page(clusters: Sequence[Row], pods: Sequence[Row], count: int) -> str:
    """The whole page, with the first of `count` pods. Rows are as the core's views give them."""
    left = count - len(pods)
    more = f"<p>{left} more pods: <code>global-dispatcher pods</code>.</p>" if left > 0 else ""
    table = [{name: value for name, value in row.items() if name != "apart"} for row in clusters]
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta http-equiv='refresh' "
        "content='5'>"
        "<meta name='viewport' content='width=device-width'><title>Global "
        f"Dispatcher</title><style>{_STYLE}</style>"
        f"</head><body><h1>Global Dispatcher</h1><h2>Clusters</h2>{_table(table)}{_kept(clusters)}"
        f"<h2>Pods</h2>{_table(pods)}{more}"
        "</body></html>"
    )


def _kept(clusters: Sequence[Row]) -> str:
    """Namespaces whose pods stay where they were submitted for what other clusters lack, in words."""
    lines = []
    for row in clusters:
        for one in row.get("apart") or ():
            lacks = [f"{cluster} has no such namespace" for cluster in one["absent_in"]]
            lacks += [
                f"{cluster} lacks Services {_some(names)}"
                for cluster, names in one["services"].items()
            ]
            lines.append(
                f"<li>{escape(row['name'])} / {escape(one['namespace'])}: "
                f"{escape('; '.join(lacks))}</li>"
            )
    more = (
        f"<p>{len(lines) - _MOST_KEPT} more: <code>global-dispatcher doctor</code>.</p>"
        if lines[_MOST_KEPT:]
        else ""
    )
    heading = "<h2>Namespaces whose pods do not go to every cluster</h2>"
    return f"{heading}<ul>{''.join(lines[:_MOST_KEPT])}</ul>{more}" if lines else ""


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _table(rows: Sequence[Row]) -> str:
    """Without columns in which nothing stands."""
    if not rows:
        return "<p>None yet.</p>"
    columns = [column for column in rows[0] if any(_text(row.get(column)) for row in rows)]
    head = "".join(f"<th scope='col'>{escape(column.replace('_', ' '))}</th>" for column in columns)
    body = "".join(
        f"<tr>{''.join(_cell(row.get(column)) for column in columns)}</tr>" for row in rows
    )
    return f"<div class='wide'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _cell(value: object) -> str:
    text = _text(value)
    return f"<td>{escape(text)}</td>" if " " in text else f"<td class='word'>{escape(text)}</td>"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
