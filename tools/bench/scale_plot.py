#!/usr/bin/env python3
"""Draws how time and memory of simulated fetches grow, from the table that scale.sh prints.

Usage: tools/bench/scale_plot.py TABLE.md > docs/results/sim_scale.svg
"""
import math
import sys

COLOURS = {"message": "#4477aa", "batch": "#ee6677", "flow": "#228833"}
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 360, 250, 62, 34, 14, 44


def rows_of(path):
    rows = []
    for line in open(path, encoding="utf-8"):
        cells = [c.strip().replace(",", "") for c in line.strip().strip("|").split("|")]
        if cells[0] in COLOURS and len(cells) == 10 and cells[1].isdigit():
            rows.append({"fidelity": cells[0], "ranks": int(cells[1]), "gets": int(cells[2]),
                         "cpu": float(cells[6]), "mb": float(cells[9])})
    return rows


def decades(values):
    return range(math.floor(math.log10(min(values)) + 1e-9),
                 math.ceil(math.log10(max(values)) - 1e-9) + 1)


def label(value):
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def panel(title, x_name, y_name, series, x0, y0):
    """One log-log panel; series: {name: [(x, y)]}."""
    xs = [x for points in series.values() for x, _ in points]
    y_range = decades([y for points in series.values() for _, y in points])
    x_low, x_high = math.log10(min(xs)) - 0.05, math.log10(max(xs)) + 0.05
    y_low, y_high = y_range[0], y_range[-1]
    px = lambda x: x0 + LEFT + (math.log10(x) - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)
    py = lambda y: y0 + HEIGHT - BOTTOM - (math.log10(y) - y_low) / (y_high - y_low) * (
        HEIGHT - TOP - BOTTOM)
    out = [f'<text x="{x0 + LEFT}" y="{y0 + 20}" class="title">{title}</text>']
    for power in y_range:
        y = py(10**power)
        out.append(f'<line x1="{x0 + LEFT}" y1="{y:.1f}" x2="{x0 + WIDTH - RIGHT}" y2="{y:.1f}"/>')
        out.append(f'<text x="{x0 + LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
                   f'{label(10.0**power)}</text>')
    for x in sorted(set(xs)):
        out.append(f'<text x="{px(x):.1f}" y="{y0 + HEIGHT - BOTTOM + 16}" '
                   f'text-anchor="middle">{label(x)}</text>')
    out.append(f'<text x="{x0 + (LEFT + WIDTH - RIGHT) / 2}" y="{y0 + HEIGHT - 8}" '
               f'text-anchor="middle">{x_name}</text>')
    out.append(f'<text transform="translate({x0 + 14} {y0 + HEIGHT / 2}) rotate(-90)" '
               f'text-anchor="middle">{y_name}</text>')
    for name, points in series.items():
        line = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in points)
        out.append(f'<polyline points="{line}" stroke="{COLOURS[name]}"/>')
        for x, y in points:
            out.append(f'<circle cx="{px(x):.1f}" cy="{py(y):.1f}" r="3.5" fill="{COLOURS[name]}">'
                       f"<title>{name}, {label(x)}: {y:g}</title></circle>")
    return out


def main():
    rows = rows_of(sys.argv[1])
    most = max(r["gets"] for r in rows)
    ranks, gets = {}, {}
    for name in COLOURS:
        own = [r for r in rows if r["fidelity"] == name]
        ranks[name] = sorted({r["ranks"]: r for r in own if r["gets"] == most}.values(),
                             key=lambda r: r["ranks"])
        fewer = [r for r in own if r["gets"] != most]
        at = fewer[0]["ranks"] if fewer else None
        gets[name] = sorted({r["gets"]: r for r in own if r["ranks"] == at}.values(),
                            key=lambda r: r["gets"])
    height = 2 * HEIGHT + 34
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {height}" '
           f'width="{2 * WIDTH}" height="{height}" font-family="sans-serif" font-size="11">',
           "<style>line{stroke:#ddd}polyline{fill:none;stroke-width:2}"
           ".title{font-size:13px;font-weight:bold}</style>",
           f'<rect width="{2 * WIDTH}" height="{height}" fill="white"/>']
    for column, (what, unit) in enumerate((("cpu", "CPU seconds"), ("mb", "MB"))):
        title = "Time" if what == "cpu" else "Memory"
        out += panel(f"{title}, {most:,} gets a rank", "ranks", unit,
                     {n: [(r["ranks"], r[what]) for r in v] for n, v in ranks.items()},
                     column * WIDTH, 0)
        out += panel(f"{title}, " + " / ".join(str(v[0]["ranks"]) for v in gets.values()) +
                     " ranks", "gets a rank", unit,
                     {n: [(r["gets"], r[what]) for r in v] for n, v in gets.items()},
                     column * WIDTH, HEIGHT)
    for i, (name, colour) in enumerate(COLOURS.items()):
        x = LEFT + 110 * i
        out.append(f'<circle cx="{x}" cy="{height - 18}" r="5" fill="{colour}"/>')
        out.append(f'<text x="{x + 10}" y="{height - 14}">{name}</text>')
    out.append("</svg>")
    print("\n".join(out))


main()
