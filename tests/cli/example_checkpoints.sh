#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# examples/digits with checkpoints: killed anywhere, it ends with the bits of an undisturbed run; it continues on any
# number of processes; launch --resume finds the newest complete checkpoint.
# By hand, for longer: KILLS=200 sh tests/cli/example_checkpoints.sh
. "${srcdir:-.}/tests/testlib.sh"

digits=$builddir/examples/digits
kills=${KILLS:-4}
# start PROCESSES FOLDER ARGUMENT...: in the background, its pid in $launcher.
start () {
    processes=$1 folder=$(pwd)/$2
    shift 2
    "$accelerate" launch --cpu --num_processes "$processes" --num_cpu_threads_per_process 1 --resume "$folder" "$digits" \
        --epochs 6 --seed 1 --output_dir "$folder" --checkpointing_steps 9 "$@" &
    launcher=$!
}
train () {
    start "$@" &&
        wait "$launcher"
}
# The ranks of a launcher that was killed end, too.
are_gone () { ! pgrep -f "output_dir $folder " >/dev/null; }
# newest FOLDER: its newest checkpoint.
newest () { find "$1/checkpoints" -name 'checkpoint_*' | sort -V | tail -n 1; }
# losses LOG: of each epoch, the last that was printed.
losses () { awk '/^epoch/ { loss[$2] = $6 } END { for (e = 1; e <= 6; e++) print e, loss[e] }' "$1"; }
# close_to LOG OTHER: the losses of the epochs that OTHER has, of which there must be some.
close_to () {
    losses "$1" >one && losses "$2" >other && paste one other |
        awk '$4 != "" { n++; d = $2 - $4; if (d > 1e-5 || d < -1e-5) bad = 1 } END { exit bad || !n }'
}

test_expect_success 'an undisturbed run' '
    train 2 whole >whole.log 2>&1 && grep "no checkpoint to resume from in .*/whole" whole.log && test -d whole/checkpoints &&
    test -s whole/model.safetensors'
test_expect_success 'saving changes nothing' '
    "$accelerate" launch --quiet --cpu --num_processes 2 "$digits" --epochs 6 --seed 1 >plain.log && losses plain.log >a &&
    losses whole.log >b && diff a b'

# Wherever it is killed: a rank, or the launcher.
round=0 tries=0
while [ $round -lt "$kills" ] && [ $tries -lt $((kills * 20)) ]; do
    tries=$((tries + 1))
    start 2 killed >try.log 2>&1 || break
    sleep "0.$(awk -v seed="${SEED:-3}$tries" 'BEGIN { srand (seed); printf "%03d", rand () * 900 }')"
    victim=$launcher
    [ $((tries % 3)) = 0 ] || victim=$(pgrep -P "$(pgrep -d, -P $launcher)" -x digits 2>/dev/null | sed -n "$((tries % 3))p")
    kill -9 "${victim:-$launcher}" 2>/dev/null && round=$((round + 1))
    wait $launcher || :
    wait_for are_gone || break
    if grep "held-out" try.log >/dev/null; then rm -rf killed; fi
done
test_expect_success "$kills kills, and then to the end: the same parameters, bit for bit" '
    test $round -eq $kills && train 2 killed >killed.log 2>&1 &&
    cmp whole/model.safetensors killed/model.safetensors && for file in model.safetensors optimizer.safetensors optimizer.json scheduler.json sampler.json; do
        cmp "$(newest whole)/$file" "$(newest killed)/$file" || return 1
    done'

# move NUMBER FROM TO: continue elsewhere from this checkpoint.
move () { mkdir -p "$3/checkpoints" && cp -r "$2/checkpoints/checkpoint_$1" "$3/checkpoints"; }
test_expect_success 'from 4 processes to 2, to 1, to 3: the same losses' '
    train 4 on4 --batch_size 60 >on4.log 2>&1 && move 3 on4 on2 && train 2 on2 --batch_size 60 >on2.log 2>&1 &&
    move 6 on2 on1 && train 1 on1 --batch_size 60 >on1.log 2>&1 &&
    move 9 on1 on3 && train 3 on3 --batch_size 60 >on3.log 2>&1 &&
    grep "^epoch   1" on4.log && ! grep "^epoch   1" on2.log && ! grep "^epoch   2" on1.log && ! grep "^epoch   3" on3.log &&
    close_to on4.log on2.log && close_to on4.log on1.log && close_to on4.log on3.log'

test_expect_success 'after a failure, the ranks continue from the newest checkpoint' '
    "$accelerate" launch --cpu --num_processes 2 --max_restarts 1 --resume again sh -c "
        if [ -z \"\$ACCEL_RESUME_FROM\" ]; then
            $digits --epochs 1 --output_dir again --checkpointing_steps epoch; exit 3
        fi
        echo from \$ACCEL_RESUME_FROM" >out 2>err &&
    grep -c "^from $(pwd)/again/checkpoints/checkpoint_0\$" out | grep -x 2 &&
    grep "note: no checkpoint to resume from in again" err && grep "note: resuming from $(pwd)/again" err'

test_expect_success 'damaged checkpoints are passed over, with the reason' '
    "$digits" --epochs 2 --output_dir bad --checkpointing_steps epoch >/dev/null &&
    printf x | dd of=bad/checkpoints/checkpoint_1/model.safetensors bs=1 seek=600 conv=notrunc 2>/dev/null &&
    "$accelerate" launch --cpu --num_processes 1 --resume bad sh -c "echo from \$ACCEL_RESUME_FROM" >out 2>err &&
    grep "^from .*/bad/checkpoints/checkpoint_0\$" out &&
    grep "passed over a checkpoint: .*checkpoint_1/model.safetensors: damaged: the checksum of tensor" err &&
    "$digits" --epochs 3 --output_dir bad --resume_from_checkpoint latest >out 2>err &&
    grep "^resuming from .*/checkpoint_0\$" out && grep "passes over a checkpoint: .*checkpoint_1" err'
test_expect_success 'latest without a checkpoint starts from the beginning' '
    "$digits" --epochs 1 --output_dir new --resume_from_checkpoint latest >out && grep "^epoch   1 of 1" out'
test_expect_success 'what does not go together is refused' '
    test_exit 1 "$digits" --checkpointing_steps 2 2>err && grep "needs --output_dir" err'
test_done
