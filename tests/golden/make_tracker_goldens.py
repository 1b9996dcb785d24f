# SPDX-License-Identifier: Apache-2.0
"""tracker.txt: records of an event file as TensorBoard's own writer makes them, in hex, one a line, for
tests/unit/track/test_tensorboard.c, which logs the same values.

Needs tensorboard (made with 2.21.0):  python3 make_tracker_goldens.py >tracker.txt"""
import io
import struct
import zlib

from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.summary.writer.record_writer import RecordWriter


def record(event):
    kept = io.BytesIO()
    RecordWriter(kept).write(event.SerializeToString(deterministic=True))
    print(kept.getvalue().hex())


def png(width, height, colours, rows):
    """Blocks that are stored: one byte for the filter of a row, then the row."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    pieces = [piece for row in rows for piece in (b"\0", row)]
    stored = b"".join(struct.pack("<BHH", i == len(pieces) - 1, len(piece), len(piece) ^ 0xFFFF) + piece
                      for i, piece in enumerate(pieces))
    data = b"\x78\x01" + stored + struct.pack(">I", zlib.adler32(b"".join(pieces)))
    assert zlib.decompress(data) == b"".join(pieces)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colours, 0, 0, 0))
            + chunk(b"IDAT", data) + chunk(b"IEND", b""))


# A file of 5 x 3 pixels, as Pillow 13.0.0 writes it.
FILE = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000005000000030802000000d45452af0000001849444154789c636460f86f"
                     "c470038e5818a21890013a1f00dad705e5fb3f8c430000000049454e44ae426082")
Value = summary_pb2.Summary.Value
metadata = summary_pb2.SummaryMetadata
text = Value(tag="note/text_summary",
             tensor=tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[b"hello"],
                                           tensor_shape=tensor_shape_pb2.TensorShapeProto(
                                               dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=1)])),
             metadata=metadata(plugin_data=metadata.PluginData(plugin_name="text")))
image = Value(tag="picture", image=summary_pb2.Summary.Image(
    height=2, width=1, colorspace=3, encoded_image_string=png(1, 2, 2, [b"abc", b"def"])))
counts = [0.0] * 64
counts[0], counts[32], counts[63] = 1.0, 2.0, 1.0
histogram = Value(tag="weights", histo=summary_pb2.HistogramProto(
    min=-32, max=32, num=4, sum=0, sum_squares=2048, bucket_limit=[float(i) - 31 for i in range(64)], bucket=counts))

record(event_pb2.Event(wall_time=1764345600.25, summary=summary_pb2.Summary(
    value=[Value(tag="train/loss", simple_value=0.25), Value(tag="zero", simple_value=0)])))
record(event_pb2.Event(wall_time=1764345601.5, step=300, summary=summary_pb2.Summary(value=[text, image, histogram])))
record(event_pb2.Event(wall_time=1764345602, step=(1 << 62) - 1, summary=summary_pb2.Summary(
    value=[Value(tag="x" * 150, simple_value=float("inf"))])))
record(event_pb2.Event(wall_time=1764345603, step=7,
                       session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START)))
info = plugin_data_pb2.SessionStartInfo(start_time_secs=1764345604)
info.hparams["lr"].number_value = 0.001
info.hparams["zero"].number_value = 0
info.hparams["model"].string_value = "mlp"
# The map of a message has no order: the fields that libaccel writes in the order of the program are compared one by one.
for key in "lr", "zero", "model":
    only = plugin_data_pb2.SessionStartInfo()
    only.hparams[key].CopyFrom(info.hparams[key])
    print(only.SerializeToString().hex())
record(event_pb2.Event(wall_time=1764345605, step=9, summary=summary_pb2.Summary(value=[
    Value(tag="file", image=summary_pb2.Summary.Image(height=3, width=5, colorspace=3, encoded_image_string=FILE))])))
