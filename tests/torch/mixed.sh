#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# launch --cpu_backend accel: a group that has gloo for the CPU and another backend for another device has libaccel in
# place of gloo, and keeps the other one.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/torch/launched.inc"

# launch_with BACKEND NAMES: two ranks, whose program names NAMES
launch_with () {
    timeout $patience "$accelerate" launch --cpu --num_processes 2 --main_process_port "$(free_port)" \
        --cpu_backend "$1" "$srcdir/tests/torch/mixed.py" "$2" >out 2>err
}
# ranks LINE: both ranks have printed it
ranks () {
    cat out && test "$(grep -c -x "$1" out)" = 2
}
python3 - 2>error <<'END' || skip_rest 'torch has no devices in Python'
import torch
torch.utils.backend_registration._setup_privateuseone_for_python_backend
END

both=allreduce\ barrier\ broadcast\ shutdown
for names in cpu:gloo,other:counted other:counted,cpu:gloo; do
    test_expect_success "$names: each backend serves its device, and the program sees the names it has given" '
        launch_with accel $names && ranks "MixedProcessGroup MixedProcessGroup $names: $both.*" && notes 0
    '
done
test_expect_success 'with gloo, the other device has the same calls' '
    launch_with gloo cpu:gloo,other:counted && ranks "ProcessGroup ProcessGroup cpu:gloo,other:counted: $both.*"
'
test_expect_success 'without a library: gloo beside the other backend' '
    ACCEL_LIBRARY=/nowhere/libaccel.so launch_with accel cpu:gloo,other:counted &&
        ranks "ProcessGroup ProcessGroup cpu:gloo,other:counted: $both.*" && notes 1
'
test_expect_success 'a backend for another device alone stays as it is; a group for the CPU then has gloo' '
    launch_with accel counted && ranks "ProcessGroup ProcessGroup counted: allreduce.*" && notes 0
'
test_done
