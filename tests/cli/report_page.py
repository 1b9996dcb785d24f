#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks pages of accelerate report: report_page.py check PAGE | png FILE COLOUR... | make FOLDER | end FOLDER

check: the page is well-formed, asks for nothing outside, has only tags and attributes of ours, and prints what is on it:
       "curve KEY RUN POINTS" for each curve, "restarts KEY COUNT", "odd KEY COUNT", "histograms KEY RUN COUNT",
       "image KEY WIDTH HEIGHT".
png:   how many pixels of a screenshot have about each colour, as "COLOUR PIXELS".
make:  a run with a curve for each group, for screenshots.
end:   what else its page can have: the report of a launch that failed, and a profile, with long words in all of it.
"""
import base64
import html.parser
import json
import math
import os
import re
import struct
import sys
import zlib

VOID = {"meta", "path", "img"}  # those of ours that have no end
TAGS = set("html head meta title style body header main section h1 h2 h3 p dl div dt dd b i small pre code table thead "
           "tbody tr th td figure figcaption span svg path img script details summary ul li".split())
ATTRIBUTES = set("lang charset http-equiv content name class id style tabindex scope role title d aria-label aria-hidden "
                 "aria-labelledby viewbox preserveaspectratio data-x data-y data-run data-from data-to src alt width "
                 "height".split())


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.ids, self.key, self.lines = [], [], None, []
        self.labels, self.marks, self.odd, self.text = [], {}, {}, ""
        self.histograms, self.images = [], []

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        attributes = dict(attrs)
        assert tag in TAGS, f"<{tag}> at {self.getpos()}"
        assert set(names) <= ATTRIBUTES and len(names) == len(set(names)), f"attributes {names} at {self.getpos()}"
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.labels += [attributes["aria-labelledby"]] if "aria-labelledby" in attributes else []
        assert "url(" not in attributes.get("style", "")
        if tag == "h3":
            self.text = ""
        if tag == "path":
            self.add_path(attributes)
        if tag == "img":
            kind, data = attributes["src"].split(",")
            assert kind == "data:image/png;base64" and base64.b64decode(data, validate=True)[:4] == b"\x89PNG"
            self.images.append((self.key, attributes["width"], attributes["height"]))
        if tag not in VOID or (tag == "path" and not self.get_starttag_text().endswith("/>")):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> at {self.getpos()} in {self.open}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == "h3":
            self.key = data

    def add_path(self, attributes):
        kind = attributes["class"].split()[0]
        if kind == "cells":
            assert re.fullmatch(r"(M[\d.]+ [\d.]+h[\d.]+v\d+h-[\d.]+z)+", attributes["d"]), attributes["d"][:80]
            return
        assert re.fullmatch(r"([ML]-?[\d.e-]+ -?[\d.e-]+(h0\.01|[VH]1000)?)*", attributes["d"]), attributes["d"][:80]
        if kind == "line":
            xs, ys = attributes["data-x"].split(" "), attributes["data-y"].split(" ")
            assert len(xs) == len(ys) and [int(x) for x in xs] == sorted({int(x) for x in xs})
            drawn = len(re.findall("[ML]", attributes["d"]))
            assert drawn == sum(map(math.isfinite, map(float, ys)))
            means = attributes["class"].startswith("line centre")
            (self.histograms if means else self.lines).append((self.key, attributes["data-run"], len(xs) if means else drawn))
        elif kind in ("mark", "odd"):
            counts = self.marks if kind == "mark" else self.odd
            counts[self.key] = counts.get(self.key, 0) + attributes["d"].count("M")


def check(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    page = Page()
    page.feed(text)
    page.close()
    assert not page.open, page.open
    assert text.startswith("<!DOCTYPE html>") and len(page.ids) == len(set(page.ids)) and set(page.labels) <= set(page.ids)
    assert not re.search("https?://", re.sub(r"<(pre|code|td|th)\b.*?</\1>", "", text, flags=re.S))
    assert text.count("<script>") == 1 and "default-src 'none'" in text
    for key, run, points in page.lines:
        print("curve", key, run, points)
    for key, run, count in page.histograms:
        print("histograms", key, run, count)
    for key, width, height in page.images:
        print("image", key, width, height)
    for name, counts in (("restarts", page.marks), ("odd", page.odd)):
        for key, count in sorted(counts.items()):
            print(name, key, count)


def read_png(path):
    """Rows of pixels (r, g, b): 8 bits a channel, not interlaced, as browsers write them."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", data[at + 8:at + 21])
            assert depth == 8 and colour in (2, 6) and not interlaced
        elif kind == b"IDAT":
            packed += data[at + 8:at + 8 + length]
        at += 12 + length
    size = 3 if colour == 2 else 4
    raw, stride = zlib.decompress(packed), width * size
    above = bytearray(stride)
    for y in range(height):
        how, row = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for x in range(stride if how else 0):
            left = row[x - size] if x >= size else 0
            up, corner = above[x], above[x - size] if x >= size else 0
            guess = left + up - corner
            near = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
            row[x] = (row[x] + (0, left, up, (left + up) // 2, near)[how]) & 255
        yield [tuple(row[x:x + 3]) for x in range(0, stride, size)]
        above = row


def count_colours(path, colours):
    wanted = {colour: tuple(int(colour[i:i + 2], 16) for i in (0, 2, 4)) for colour in colours}
    counts = dict.fromkeys(colours, 0)
    for row in read_png(path):
        for pixel in row:
            for name, colour in wanted.items():
                counts[name] += all(abs(a - b) <= 6 for a, b in zip(pixel, colour))
    for name, count in counts.items():
        print(name, count)


def make(folder, rate="0.0006", steps="2000"):
    """The same bytes each time."""
    os.makedirs(folder, exist_ok=True)
    rate, steps, noise = float(rate), int(steps), 12345

    def random():
        nonlocal noise
        noise = (noise * 1103515245 + 12345) % (1 << 31)
        return noise / (1 << 31) - .5

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = b"".join(b"\0" + b"\x12\xab\x34" * 40 for _ in range(40))
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 40, 40, 8, 2, 0, 0, 0)) \
        + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    with open(os.path.join(folder, "metrics.jsonl"), "w", encoding="utf-8") as file:
        file.write(json.dumps({"config": {"lr": rate, "model": "gpt2-124M", "batch": 32}}, separators=(",", ":")) + "\n")
        for step in range(steps):
            values = {"train/loss": (3 + 8 * math.exp(-step / 150 * rate / .0006)) * (1 + random() * .08),
                      "train/lr": rate * min(1, step / 100) * (.5 + .5 * math.cos(math.pi * step / steps)),
                      "grad_norm": .5 + .3 * random() + 2 * math.exp(-step / 60)}
            if step % 5 == 0:
                values["tokens_per_second"] = 2.04e6 * (1 + random() * .08)
            if step % 50 == 0:
                values["eval/loss"] = 3.1 + 8 * math.exp(-step / 150 * rate / .0006)
                values["loss_scale"] = 65536 / 2 ** (step // 600)
                values["gpu_memory_gb"] = 61 + random()
                bins = [round(1000 * math.exp(-((bin - 31.5) / 8) ** 2)) for bin in range(64)]
                values["weights"] = {"count": sum(bins), "min": -1 - step, "max": 1 + step, "sum": 0, "bins": bins}
                values["sample"] = {"png": base64.b64encode(png).decode()}
            record = {"step": step, "time": 1764345600 + step * .25, "values": values}
            file.write(json.dumps(record, separators=(",", ":")) + "\n")


def make_end(folder):
    word = "/a/very/long/path" * 12 + "_" + "x" * 200
    failure = {"rank": 3, "pid": 12345, "exit_code": 1, "doing": f"accel_all_reduce at {word}.c:7", "error": word,
               "stderr": [word, "last words " * 30], "traceback": [word], "gpus": [word],
               "others": [{"rank": rank, "doing": word} for rank in range(2)]}
    launch = {"host": word, "program": word, "exit_status": 1, "failure": failure,
              "restarts": [{"attempt": 0, "error": word}], "environment": {word: word, "system": word},
              "configuration": {word: {"value": word, "origin": word}},
              "processes": [{"rank": rank, "peak_memory_bytes": 1 << 30, "cpu_seconds": 1.5} for rank in range(4)]}
    with open(os.path.join(folder, "launch.json"), "w", encoding="utf-8") as file:
        json.dump(launch, file)
    events = []
    for rank in range(4):
        for at, time, name, kind in ((0, 1000, "step 0", "step"), (0, 100, "accel_loader_next", "span"),
                                     (500, 400, word, "collective"), (500, 300, "wait for rank 1", "wait")):
            events.append(json.dumps({"ph": "X", "pid": rank, "tid": 1, "ts": at, "dur": time, "name": name, "cat": kind,
                                      "args": {"at": word + ":7"}}))
    with open(os.path.join(folder, "profile.json"), "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(events) + "\n]\n")


if __name__ == "__main__":
    {"check": check, "png": lambda path, *colours: count_colours(path, colours), "make": make,
     "end": make_end}[sys.argv[1]](*sys.argv[2:])
