#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# examples/digits with checkpoints: killed anywhere, it ends with the bits of an undisturbed run; it continues on any
# number of processes; launch --resume finds the newest complete checkpoint.
# By hand, for longer: KILLS=200 sh tests/examples/checkpoints.sh
. "${srcdir:-.}/tests/testlib.sh"

digits=$builddir/examples/digits
kills=2
! is_long || kills=4
kills=${KILLS:-$kills}
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
    train 2 whole >whole.log 2>&1 && grep "warning: --resume: folder .*/whole does not exist" whole.log && test -d whole/checkpoints &&
    test -s whole/model.safetensors'
test_expect_success 'saving changes nothing' '
    "$accelerate" launch --quiet --cpu --num_processes 2 "$digits" --epochs 6 --seed 1 >plain.log && losses plain.log >a &&
    losses whole.log >b && diff a b'

# Wherever it is killed, once or twice: a rank by SIGKILL, the launcher by SIGKILL or SIGTERM.
# random MOST: a whole number below, from the seed and how many were asked for before
draws=0 drawn=0
random () {
    draws=$((draws + 1))
    drawn=$(awk -v seed="${SEED:-3}$(printf %05d $draws)" -v most="$1" 'BEGIN { srand (seed); print int (rand () * most) }')
}
# kill_once: start, and kill something after up to 0.9 s; whether it was still there is in $hit, what was hit in victims
kill_once () {
    start 2 killed >try.log 2>&1 || return 1
    random 900 && sleep "0.$(printf %03d "$drawn")"
    random 4
    number=9 hit=false
    case $drawn in
    0 | 1) victim=$(pgrep -P "$(pgrep -d, -P $launcher)" -x digits 2>/dev/null | sed -n "$((drawn + 1))p") ;;
    2) victim=$launcher ;;
    *) victim=$launcher number=15 ;;
    esac
    if [ -n "$victim" ] && kill -$number "$victim" 2>/dev/null; then hit=true; fi
    wait $launcher || :
    wait_for are_gone || return 1
    # What had ended before the signal came was not killed.
    if grep "held-out" try.log >/dev/null; then hit=false; fi
    if $hit; then echo "$drawn" >>victims; fi
}
states='model.safetensors optimizer.safetensors optimizer.json scheduler.json sampler.json'
# same_as_whole FOLDER: the model, and the state in the newest checkpoint
same_as_whole () {
    cmp whole/model.safetensors "$1/model.safetensors" || return 1
    for file in $states; do
        cmp "$(newest whole)/$file" "$(newest "$1")/$file" || return 1
    done
}
# resumed_runs: $kills runs, each killed at least once, and then resumed to its end
resumed_runs () {
    runs=0 tries=0
    : >victims
    while [ $runs -lt "$kills" ] && [ $tries -lt $((kills * 20)) ]; do
        tries=$((tries + 1))
        rm -rf killed
        kill_once || return 1
        $hit || continue
        random 2
        if [ "$drawn" = 1 ]; then kill_once || return 1; fi
        train 2 killed >killed.log 2>&1 && same_as_whole killed || { cat killed.log && return 1; }
        runs=$((runs + 1))
    done
    echo "$runs runs, $(wc -l <victims) kills: rank 0 $(grep -cx 0 victims), rank 1 $(grep -cx 1 victims)," \
        "launcher by SIGKILL $(grep -cx 2 victims), by SIGTERM $(grep -cx 3 victims)" | tee runs.log
    test $runs -eq "$kills"
}
test_expect_success "$kills runs that are killed and resumed: the same parameters, bit for bit" resumed_runs
[ -z "${KILLS-}" ] || sed 's/^/# /' runs.log

# move NUMBER FROM TO: continue elsewhere from this checkpoint.
move () { mkdir -p "$3/checkpoints" && cp -r "$2/checkpoints/checkpoint_$1" "$3/checkpoints"; }
test_expect_success 'from 4 processes to 2, to 1, to 3: the same losses' '
    train 4 on4 --batch_size 60 >on4.log 2>&1 && move 3 on4 on2 && train 2 on2 --batch_size 60 >on2.log 2>&1 &&
    move 6 on2 on1 && train 1 on1 --batch_size 60 >on1.log 2>&1 &&
    move 9 on1 on3 && train 3 on3 --batch_size 60 >on3.log 2>&1 &&
    grep "^epoch   1" on4.log && ! grep "^epoch   1" on2.log && ! grep "^epoch   2" on1.log && ! grep "^epoch   3" on3.log &&
    close_to on4.log on2.log && close_to on4.log on1.log && close_to on4.log on3.log'
# The order of samples is made from the sampler's state; tests/unit/checkpoint/test_checkpoint compares the samples themselves.
test_expect_success 'and the same places in the data' '
    n=0 && for folder in on2 on1 on3; do
        for place in "$folder"/checkpoints/*; do
            number=${place##*_} && n=$((n + 1)) &&
                cmp "$place/sampler.json" "on4/checkpoints/checkpoint_$number/sampler.json" || return 1
        done
    done && test $n -gt 20'

test_expect_success 'after a failure, the ranks continue from the newest checkpoint' '
    "$accelerate" launch --cpu --num_processes 2 --max_restarts 1 --resume again sh -c "
        if [ -z \"\$ACCEL_RESUME_FROM\" ]; then
            $digits --epochs 1 --output_dir again --checkpointing_steps epoch; exit 3
        fi
        echo from \$ACCEL_RESUME_FROM" >out 2>err &&
    grep -c "^from $(pwd)/again/checkpoints/checkpoint_0\$" out | grep -x 2 &&
    grep "warning: --resume: folder $(pwd)/again does not exist" err && grep "note: resuming from $(pwd)/again" err'

test_expect_success 'a wrong path is not taken for a first start in silence' '
    "$accelerate" launch --cpu --num_processes 1 --resume /nowhere sh -c "echo from \$ACCEL_RESUME_FROM." >out 2>err &&
    grep "^from \.\$" out && grep -c -e --resume err | grep -x 1 &&
    grep "warning: --resume: folder /nowhere does not exist; .* start from the beginning\. .*correct the path" err &&
    mkdir -p empty && "$accelerate" launch --cpu --num_processes 1 --resume empty true 2>err &&
    grep "note: no checkpoint to resume from in empty" err && ! grep warning err'

# resumes FOLDER PATH
resumes () {
    "$accelerate" launch --cpu --num_processes 1 --resume "$1" sh -c 'echo "$ACCEL_RESUME_FROM"' >out 2>err &&
        realpath "$2" >path && cmp path out
}
test_expect_success 'folders of Accelerate count by their numbers; one with another name is one if it is given itself' '
    state=$srcdir/tests/golden/save_state/adamw && mkdir -p mixed/checkpoints &&
    "$digits" --epochs 1 --output_dir mixed --checkpointing_steps epoch >/dev/null && cp -R "$state" mixed/checkpoints/checkpoint_1 &&
    resumes mixed mixed/checkpoints/checkpoint_1 && resumes "$state" "$state" &&
    mkdir mixed/checkpoints/checkpoint_2 && resumes mixed mixed/checkpoints/checkpoint_1 && grep "passed over a checkpoint: .*/checkpoint_2" err'
test_expect_success 'damaged checkpoints are passed over, with the reason' '
    "$digits" --epochs 2 --output_dir bad --checkpointing_steps epoch >/dev/null &&
    printf x | dd of=bad/checkpoints/checkpoint_1/model.safetensors bs=1 seek=600 conv=notrunc 2>/dev/null &&
    "$accelerate" launch --cpu --num_processes 1 --resume bad sh -c "echo from \$ACCEL_RESUME_FROM" >out 2>err &&
    grep "^from .*/bad/checkpoints/checkpoint_0\$" out &&
    grep "passed over a checkpoint: .*checkpoint_1/model.safetensors: damaged: the checksum of tensor" err &&
    "$digits" --epochs 3 --output_dir bad --resume_from_checkpoint latest >out 2>err &&
    grep "^resuming from .*/checkpoint_0\$" out && grep "passes over a checkpoint: .*checkpoint_1" err'
test_expect_success 'and checkpoints without their manifest, which are not taken for folders of Accelerate' '
    mkdir -p lost/checkpoints && cp -r bad/checkpoints/checkpoint_0 lost/checkpoints &&
    cp -r bad/checkpoints/checkpoint_0 lost/checkpoints/checkpoint_1 && rm lost/checkpoints/checkpoint_1/manifest.json &&
    "$accelerate" launch --cpu --num_processes 1 --resume lost sh -c "echo from \$ACCEL_RESUME_FROM" >out 2>err &&
    grep "^from .*/lost/checkpoints/checkpoint_0\$" out && grep "passed over a checkpoint: .*checkpoint_1: has no manifest.json" err'
test_expect_success 'so are states that are not finite, unless they are named' '
    "$digits" --epochs 1 --output_dir good --checkpointing_steps epoch >/dev/null &&
    "$digits" --epochs 2 --output_dir apart --checkpointing_steps epoch --lr 999999 --warmup 0 --lr_scheduler constant \
        >/dev/null 2>err && grep "parameter .hidden.bias. is NaN at element 0 on rank 0 after step 44: .* as checkpoint_1.nonfinite" err &&
    state=checkpoints/checkpoint_1.nonfinite && cp -r apart/$state good/checkpoints &&
    "$accelerate" launch --cpu --num_processes 1 --resume good sh -c "echo from \$ACCEL_RESUME_FROM" >out 2>err &&
    grep "^from .*/good/checkpoints/checkpoint_0\$" out &&
    grep "note: passed over a checkpoint: good/$state: .hidden.bias. is NaN at element 0" err &&
    "$digits" --epochs 2 --output_dir good --resume_from_checkpoint latest >out 2>err &&
    grep "^resuming from .*/checkpoint_0\$" out && grep "passes over a checkpoint: good/$state: .hidden.bias. is NaN" err &&
    "$accelerate" launch --cpu --num_processes 1 --resume good/$state sh -c "echo from \$ACCEL_RESUME_FROM" >out 2>err &&
    grep "^from .*/good/$state\$" out'
test_expect_success 'latest without a checkpoint starts from the beginning' '
    "$digits" --epochs 1 --output_dir new --resume_from_checkpoint latest >out && grep "^epoch   1 of 1" out'
test_expect_success 'what does not go together is refused' '
    test_exit 1 "$digits" --checkpointing_steps 2 2>err && grep "needs --output_dir" err'
test_done
