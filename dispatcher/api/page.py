"""The status page: clusters and pods as plain server-rendered HTML, no script, no asset from elsewhere."""

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
"""
MOST_PODS = 500


def render_page(clusters: Sequence[Row], pods: Sequence[Row], count: int) -> str:
    """The whole page, with the first of `count` pods. Rows are as the core's views give them."""
    left = count - len(pods)
    more = f"<p>{left} more pods: <code>global-dispatcher pods</code>.</p>" if left > 0 else ""
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta http-equiv='refresh' content='5'>"
        f"<meta name='viewport' content='width=device-width'><title>Global Dispatcher</title><style>{_STYLE}</style>"
        f"</head><body><h1>Global Dispatcher</h1><h2>Clusters</h2>{_table(clusters)}<h2>Pods</h2>{_table(pods)}{more}"
        "</body></html>"
    )


def _table(rows: Sequence[Row]) -> str:
    if not rows:
        return "<p>None yet.</p>"
    columns = list(rows[0])
    head = "".join(f"<th scope='col'>{escape(column.replace('_', ' '))}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(row.get(column))}</td>' for column in columns)}</tr>" for row in rows)
    return f"<div class='wide'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, list):
        return escape(", ".join(map(str, value)))
    return "" if value is None else escape(str(value))
