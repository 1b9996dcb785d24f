#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# DDP, tensor parallelism (also that of transformers), FSDP2 and checkpoints train through libaccel as through gloo: all losses have the same bits.
. "${srcdir:-.}/tests/testlib.sh"
torch_wanted=2.4
. "$srcdir/tests/torch/launched.inc"

steps=10
! is_long || steps=100
# train BACKEND
train () {
    mkdir "$1" && timeout $patience "$accelerate" launch --cpu --num_processes 2 --main_process_port "$(free_port)" \
        "$srcdir/tests/torch/train.py" "$1" "$1" "$steps" >"$1.losses" 2>err
}
test_expect_success "all losses of $steps steps are those of gloo" '
    train accel && train gloo && cmp accel.losses gloo.losses && test "$(grep -c "^ddp " accel.losses)" = "$steps" &&
        { ! python3 -c "import transformers" 2>no || grep "^transformer 9 " accel.losses; }
'
test_done
