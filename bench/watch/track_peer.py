#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scalars to event files by TensorBoard's own writer and, in turns, by libaccel: track_peer.py BENCH_TRACK FOLDER
[SCALARS [ROUNDS]].  Then TensorBoard reads what libaccel wrote."""
import pathlib
import statistics
import subprocess
import sys
import time

from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
scalars = int(sys.argv[3]) if len(sys.argv) > 3 else 1000000
rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 3
theirs, ours = [], []
for number in range(rounds):
    begin = time.monotonic()
    # What torch's SummaryWriter.add_scalar() does, without its checks.
    writer = EventFileWriter(str(folder / f"python-{number}"))
    for step in range(scalars):
        event = Event(wall_time=time.time(), step=step,
                      summary=Summary(value=[Summary.Value(tag="train/loss", simple_value=1 / (step + 1))]))
        writer.add_event(event)
    writer.close()
    theirs.append(time.monotonic() - begin)
    said = subprocess.run([program, str(folder / f"c-{number}"), str(scalars), "1"], check=True, capture_output=True,
                          text=True).stdout
    ours.append(float(said.split(" scalars in ")[1].split()[0]))
    print(f"TensorBoard's writer: {theirs[-1]:.3f} s; {said.strip()}", flush=True)
print(f"medians of {rounds}: {statistics.median(theirs):.3f} s and {statistics.median(ours):.3f} s: libaccel is "
      f"{statistics.median(theirs) / statistics.median(ours):.1f} times as fast")
files = list((folder / "c-0" / "writing").glob("*tfevents*"))
read = sum(1 for event in EventFileLoader(str(files[0])).Load() if event.HasField("summary"))
print(f"TensorBoard reads {read} of {scalars} scalars")
sys.exit(read != scalars)
