#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# TensorBoard reads our event files, if Python has it.
. "${srcdir:-.}/tests/testlib.sh"

run=$builddir/tests/unit/track/track_run
python3 -c 'import tensorboard' 2>/dev/null || skip_rest 'needs the Python package tensorboard'
cat >read.py <<'END'
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(sys.argv[1], size_guidance={name: 0 for name in ("scalars", "tensors", "images", "histograms")})
events.Reload()
loss = events.Scalars("train/loss")
print("steps", [event.step for event in loss])
print("values", all(abs(event.value - 1 / (event.step + 1)) < 1e-6 for event in loss))
print("tags", {kind: tags for kind, tags in events.Tags().items() if isinstance(tags, list) and tags})
image = events.Images("picture")[0]
print("image", image.width, image.height, image.encoded_image_string[:4])
weights = events.Histograms("weights")[0].histogram_value
print("histogram", weights.num, weights.min, weights.max, sum(weights.bucket))
print("text", events.Tensors("note/text_summary")[0].tensor_proto.string_val)
print("hparams", "_hparams_/session_start_info" in events.summary_metadata)
END
test_expect_success 'numbers, texts, images, histograms and hyper-parameters' '
    "$run" tensorboard logs 10 && python3 read.py logs/project >out && cat out &&
    grep -x "steps \[0, 1, 2, 3, 4, 5, 6, 7, 8, 9\]" out && grep -x "values True" out && grep -F "image 2 1 b" out &&
    grep -x "histogram 4.0 0.0 3.0 4.0" out && grep -F "text [b" out && grep -x "hparams True" out'
test_expect_success 'a run that continues at step 5 takes the place of what was logged from there on' '
    sleep 1 && "$run" tensorboard logs 3 5 && python3 read.py logs/project >out && cat out &&
    grep -x "steps \[0, 1, 2, 3, 4, 5, 6, 7\]" out'
test_expect_success 'a record that is torn ends its file, and what is before it is read' '
    "$run" tensorboard torn 10 && file=$(ls torn/project/events*) && size=$(wc -c <"$file") &&
    truncate -s $((size - 5)) "$file" && python3 read.py torn/project >out && cat out &&
    grep -x "steps \[0, 1, 2, 3, 4, 5, 6, 7, 8\]" out'
test_done
