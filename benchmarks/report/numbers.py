"""Numbers as the tables write them: three figures that matter, thousands apart."""


def amount(value: float | None, unit: str = "") -> str:
    """A figure, with what remains of its unit where it is not plainly a rate; empty for none."""
    if value is None:
        return ""
    tail = {"": "", "%": " %"}.get(unit, "/s" if unit.endswith("/s") else f" {unit}")
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}{tail}"
    return f"{value:.2f}{tail}"


def short(count: int) -> str:
    """5k, 10.8k, 500k, 1M; 1,213 stays: a count that is a size, not a result. Empty for none."""
    if (count % 100 and count < 10_000) or count < 1000:
        return f"{count:,}" if count else ""
    return f"{count / 1000:.3g}k" if count < 999_500 else f"{count / 1_000_000:.3g}M"


def times(ratio: float | None) -> str:
    """A ratio."""
    if ratio is None:
        return ""
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.2g}" if ratio >= 10 else f"{ratio:.1f}"
