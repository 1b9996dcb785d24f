#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# launch --cpu_backend: PyTorch programs that ask for gloo get libaccel without a change, and gloo where that cannot be.
. "${srcdir:-.}/tests/testlib.sh"
torch_wanted=2.4
. "$srcdir/tests/torch/launched.inc"

program=$srcdir/tests/torch/plug.py
# launch_with BACKEND WORD...: two ranks; all of the standard error but torch's warnings has to be ours
launch_with () {
    backend=$1 && shift
    timeout $patience "$accelerate" launch --cpu --num_processes 2 --main_process_port "$(free_port)" \
        --cpu_backend "$backend" "$program" "$@" >out 2>err
}

test_expect_success 'gloo of a program becomes accel, its name does not change, and the losses are the same' '
    launch_with accel train && trained AccelProcessGroup 2 && notes 0 && sed "s/.* //" out | sort >accel &&
        launch_with gloo train && trained ProcessGroup 2 && notes 0 && sed "s/.* //" out | sort >gloo && cmp accel gloo
'
test_expect_success 'a child of a rank that makes a group of its own has gloo, and one note says why' '
    launch_with accel child && trained ProcessGroup 2 && notes 1 "the process was started by a rank, and is not one"
'
test_expect_success 'a job that a rank starts has accel, too' '
    timeout $patience "$accelerate" launch --cpu --cpu_backend accel "$program" below "$accelerate" launch --cpu \
        --num_processes 2 --main_process_port "$(free_port)" --cpu_backend accel "$program" train >out 2>err &&
        trained AccelProcessGroup 2 && notes 0
'
test_expect_success 'ranks that the program has started itself have gloo' '
    timeout $patience "$accelerate" launch --cpu --cpu_backend accel "$program" spawn "$(free_port)" >out 2>err &&
        trained ProcessGroup 2 && notes 1 "the "
'
test_expect_success 'under another launcher: gloo' '
    ACCEL_CPU_BACKEND=accel by_hand 2 "$(free_port)" python3 "$program" train >out 2>err && trained ProcessGroup 2 &&
        notes 1 "the process was not started by accelerate launch"
'
test_expect_success 'without a library: gloo, and the note names the path' '
    ACCEL_LIBRARY=/nowhere/libaccel.so launch_with accel train && trained ProcessGroup 2 && notes 1 &&
        grep "note: .*/nowhere/libaccel.so" err
'
test_expect_success 'a program that names no backend, or that of the CPU, has the same' '
    for named in none cpu:gloo; do
        launch_with accel train $named && notes 0 && test "$(grep -c "^AccelProcessGroup" out)" = 2 &&
            ACCEL_LIBRARY=/nowhere/libaccel.so launch_with accel train $named && notes 1 &&
            test "$(grep -c "^ProcessGroup" out)" = 2 || return 1
    done
'
test_expect_success 'so it is with a library that lacks functions' '
    library=$(python3 -c "import _ctypes; print (_ctypes.__file__)") && ACCEL_LIBRARY=$library launch_with accel train &&
        trained ProcessGroup 2 && notes 1 && grep "note: .*$library: .*undefined symbol" err
'
# splits BACKEND CLASS LAST: both ranks have split their group by each name
splits () {
    launch_with "$1" split && notes 0 && sort -u out >got &&
        printf "$2 %s 2.0\n" "cpu:$3 cpu:$3" "cpu:gloo cpu:gloo" "gloo None" "gloo gloo" | sort -u >wanted &&
        diff wanted got && test "$(grep -c . out)" = 8
}
what='split_group() takes the names of the program, as with gloo, and makes groups of accel'
if python3 -c 'import inspect, sys, torch.distributed as dist
sys.exit ("backend" not in inspect.signature (dist.split_group).parameters)'; then
    test_expect_success "$what" 'splits accel AccelProcessGroup accel && splits gloo ProcessGroup gloo'
else
    test_skip "$what" 'split_group() of this version of PyTorch takes no names'
fi

# As on hosts of which one has no accel_torch.
cat >lacks <<'END'
#!/bin/sh
test "$RANK" != "$1" || PYTHONPATH=
export PYTHONPATH
exec python3 "$2" train
END
chmod +x lacks
for rank in 0 1; do
    test_expect_success "if the Python of rank $rank has no accel_torch, all have gloo" '
        timeout $patience "$accelerate" launch --cpu --num_processes 2 --main_process_port "$(free_port)" \
            --cpu_backend accel --no_python ./lacks $rank "$program" >out 2>err && trained ProcessGroup 2 &&
            notes 1 "the Python of rank $rank has no accel_torch"
    '
done
test_expect_success 'auto is gloo' 'launch_with auto train && trained ProcessGroup 2 && notes 0'

# Ranks of launchers that were started by hand on two machines, here twice this one.
test_expect_success 'several machines without MPI: gloo' '
    port=$(free_port) && words="--cpu --num_processes 2 --num_machines 2 --main_process_ip 127.0.0.1" &&
        { timeout $patience "$accelerate" launch $words --main_process_port $port --machine_rank 1 --cpu_backend accel \
            "$program" train >out1 2>err1 & } && other=$! &&
        timeout $patience "$accelerate" launch $words --main_process_port $port --machine_rank 0 --cpu_backend accel \
            "$program" train >out 2>err && wait $other && cat out1 >>out && trained ProcessGroup 2 &&
        notes 1 "ranks on several hosts need MPI" && ! grep -q accel_torch err1
'

shows_lines () {
    timeout $patience "$accelerate" stacks $launcher >shown && grep -q "^  compute (plug.py:" shown
}
shows_wait () {
    timeout $patience "$accelerate" top --once >listed &&
        grep -q " in accel_comm_[a-z_]* at .*plug.py:[0-9]*, waits for rank 1" listed
}
test_expect_success 'stacks and top show its Python lines, and what a rank waits for' '
    : >busy && { "$accelerate" launch --cpu --num_processes 2 --main_process_port "$(free_port)" --cpu_backend accel \
        "$program" stacks >out 2>err & } && launcher=$! && wait_for shows_lines && wait_for shows_wait && rm busy &&
        wait $launcher
'
test_expect_success 'a job that is ended prints the Python lines of all ranks' '
    : >busy && { "$accelerate" launch --cpu --num_processes 2 --main_process_port "$(free_port)" --cpu_backend accel \
        "$program" stacks >out 2>err & } && launcher=$! && wait_for shows_wait && kill $launcher &&
        { wait $launcher || test $? = 143; } && cat err &&
        grep "rank 0: in accel_comm_[a-z_]* at .*plug.py:[0-9]*" err && grep "rank 1: .* at .*plug.py:[0-9]*" err
'
test_done
