#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""utility_trace.py whole|bounded RANKS FILE: check a trace of tests/conformance/utility.c."""
import json
import sys

kind, ranks, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
with open(path, encoding="utf-8") as file:
    events = json.load(file)
assert isinstance(events, list)
for event in events:
    for key, types in {"ph": str, "ts": (int, float), "pid": int, "tid": int, "name": str}.items():
        assert isinstance(event.get(key), types), (key, event)
    assert event["ph"] in "XM" and event["ts"] >= 0 and 0 <= event["pid"] < ranks, event
    assert event["ph"] == "M" or event["dur"] >= 0, event


def nanoseconds(event):
    return round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)


def check_nesting(track):
    """Events of one thread lie inside each other or apart."""
    outer = []
    for event in sorted(track, key=lambda e: (nanoseconds(e)[0], -nanoseconds(e)[1])):
        begin, end = nanoseconds(event)
        while outer and outer[-1] <= begin:
            outer.pop()
        assert not outer or end <= outer[-1], event
        outer.append(end)


for rank in range(ranks):
    mine = [e for e in events if e["pid"] == rank and e["ph"] == "X"]
    names = [e["name"] for e in mine]
    for thread in 1, 2:
        check_nesting([e for e in mine if e["tid"] == thread])
    title = [e["args"]["name"] for e in events if e["pid"] == rank and e["name"] == "process_name"]
    if kind == "bounded":
        # 300 spans, 3 times 2 spans, 2 collectives and a step
        assert title == (["rank 1"] if rank else [f"rank 0 ({315 - 2} events dropped)"]), title
        assert len(mine) == (315 if rank else 2), len(mine)
        assert not rank or names.count("(others)") > 40
        assert not [e for e in mine if e.get("cat") == "wait"]
        continue
    assert title == [f"rank {rank} (8 events dropped)"], title  # 40 spans deep, 32 are kept
    assert [n for n in names if n.startswith("step")] == ["step 0", "step 1", "step 2"], names
    assert names.count("inner") == 3 and names.count('compute "it"\n') == 3 and names.count("deep") == 32, names
    reduces = [e for e in mine if e["name"] == "accel_comm_all_reduce"]
    assert len(reduces) == 3 and names.count("accel_wait_for_everyone") == 3, names
    for event in reduces:
        assert event["args"]["at"].startswith("utility.c:") and event["args"]["count"] == 1, event
        assert event["args"]["type"] == "float32", event

if kind == "whole":
    calls = [e for e in events if e.get("cat") == "collective"]
    waits = {(e["pid"], e["ts"]): e for e in events if e.get("cat") == "wait"}
    assert ranks == 1 or waits
    for call in calls:
        same = [c for c in calls if c["args"]["number"] == call["args"]["number"]]
        assert len(same) == ranks and {c["name"] for c in same} == {call["name"]}, same
        last = max(nanoseconds(c)[0] for c in same)
        wait = waits.pop((call["pid"], call["ts"]), None)
        if wait:  # from its own coming to that of the last one, which it names
            assert nanoseconds(wait)[1] == last, (wait, same)
            named = int(wait["name"].removeprefix("wait for rank "))
            assert [c for c in same if c["pid"] == named and nanoseconds(c)[0] == last], (wait, same)
        else:
            assert nanoseconds(call)[0] == last or nanoseconds(call)[1] <= last, (call, same)
    assert not waits, waits
