#!/usr/bin/env python3
"""Figures of `engram bench fetch` as a Markdown table.

    bench_table.py --machine TEXT --command TEXT [--notes FILE] FIGURES.json...

Notes are taken in as they stand: what is said about figures is written by hand, the tables never.
"""
import argparse
import json
import pathlib

HEAD = """# Rows by loads and by streams, with the limit of the same run

Machine: {machine}.
Command: `{command}`. GB/s = payload / median time, 1 GB = 1e9 B.
queued: events around one fetch in a full queue (an empty kernel reads about 4.4 us); graph: one of 64
fetches in a graph; wall: host call to return of the synchronize. Groups "stream" go through
nccl::StreamFetch, issue and wait; the others launch the gather kernels themselves.
Wrong bytes: over two fetches into poisoned output, compared on the GPU by plain division (streams:
one). Each ratio is limit time / median time.
"""
COLUMNS = ["case", "how", "rows", "B", "min us", "median us", "max us", "GB/s", "M rows/s",
           "wrong bytes", "of limit", "target"]


def cells(m: dict) -> list:
    target = ""
    if "target" in m:
        target = f"{m['target']}: {'met' if m['met'] else '**missed**'}"
    limit = f"{100 * m['of_limit']:.1f} % of {m['limit']}" if "limit" in m else ""
    return [m["name"], m["how"], m["rows"], m["row_bytes"], f"{m['min_us']:.2f}",
            f"{m['median_us']:.2f}", f"{m['max_us']:.2f}", f"{m['GB_per_s']:.1f}",
            f"{m['million_rows_per_s']:.1f}", m.get("wrong_bytes", ""), limit, target]


def row(values: list) -> str:
    return "| " + " | ".join(str(v) for v in values) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", required=True)
    parser.add_argument("--command", required=True)
    parser.add_argument("--notes", type=pathlib.Path)
    parser.add_argument("figures", type=pathlib.Path, nargs="+")
    args = parser.parse_args()
    print(HEAD.format(machine=args.machine, command=args.command))
    if args.notes and args.notes.exists():
        print(args.notes.read_text())
    for path in args.figures:
        group = None
        for m in json.loads(path.read_text()).get("measurements") or []:
            if m["group"] != group:
                group = m["group"]
                print(f"\n## {group}\n")
                print(row(COLUMNS))
                print("|" + "---|" * len(COLUMNS))
            print(row(cells(m)))


if __name__ == "__main__":
    main()
