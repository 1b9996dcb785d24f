#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# DDP, tensor parallelism (also that of transformers), FSDP2 and checkpoints train through libaccel as through gloo: all
# losses have the same bits.
. "${srcdir:-.}/tests/testlib.sh"
torch_wanted=2.4
. "$srcdir/tests/torch/launched.inc"

steps=10
! is_long || steps=100
# train NAME BACKEND OPTION...: losses to NAME.losses, all of standard error to NAME.err
train () {
    name=$1 backend=$2 && shift 2 && mkdir "$name" &&
        timeout $patience "$accelerate" launch --cpu --num_processes 2 --main_process_port "$(free_port)" "$@" \
            "$srcdir/tests/torch/train.py" "$backend" "$name" "$steps" >"$name.losses" 2>"$name.err"
}
test_expect_success "all losses of $steps steps are those of gloo" '
    train accel accel && train gloo gloo && cmp accel.losses gloo.losses &&
        test "$(grep -c "^ddp " accel.losses)" = "$steps" && grep -x "groups: ProcessGroup" gloo.err &&
        { ! python3 -c "import transformers" 2>no || grep "^transformer 9 " accel.losses; }
'
test_expect_success 'so they are if the same program asks for gloo and the launcher for accel, which has all groups' '
    train plugged gloo --cpu_backend accel && cmp plugged.losses gloo.losses &&
        grep -x "groups: AccelProcessGroup" plugged.err && ! grep "accel_torch: note" plugged.err
'
test_done
