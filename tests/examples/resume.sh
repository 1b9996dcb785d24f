#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# examples/resume: killed anywhere and restarted on another number of processes, it writes the log of an undisturbed run,
# with the same losses.
. "${srcdir:-.}/tests/testlib.sh"

resume=$builddir/examples/resume
seed=${RESUME_TEST_SEED:-20}
samples=496 epochs=4
total=$((samples * epochs))

# start PROCESSES ARGUMENT...: in the background, its pid in $launcher
start () {
    processes=$1
    shift
    "$accelerate" launch --quiet --cpu --num_processes "$processes" --num_cpu_threads_per_process 1 "$resume" \
        --samples $samples --epochs $epochs "$@" >>run.out 2>&1 &
    launcher=$!
}
has_ended () { ! kill -0 "$launcher" 2>/dev/null; }
# finish: the launcher's status; 99: it does not end
finish () {
    wait_for has_ended || { kill -9 "$launcher" && return 99; }
    wait "$launcher"
}
# has_lines COUNT: the log has as many, or the run is over
has_lines () {
    has_ended || [ "$(wc -l <log)" -ge "$1" ]
}
# kill_at LINES WHOM: the launcher, or its rank WHOM if it has started it yet
kill_at () {
    wait_for has_lines "$1" || return 1
    victim=$launcher
    [ "$2" = launcher ] || victim=$(pgrep -P "$launcher" -x resume | sed -n "$2p")
    # The launcher may have a process between itself and the ranks.
    [ -n "$victim" ] || victim=$(pgrep -P "$(pgrep -d, -P "$launcher")" -x resume | sed -n "$2p")
    echo "at $(wc -l <log) lines, $processes processes: $2 (${victim:-not there yet})"
    kill -9 "${victim:-$launcher}" 2>/dev/null || echo "it has ended already"
    finish || [ $? -ne 99 ]
}

for processes in 1 2 4; do
    test_expect_success "$processes processes, undisturbed" '
        rm -f run.out && start $processes --project_dir state.$processes --log log.$processes && finish &&
        test "$(wc -l <log.$processes)" = $total'
done
test_expect_success 'alike on 1, 2 and 4 processes' 'cmp log.1 log.2 && cmp log.1 log.4'
test_expect_success 'losses become smaller' '
    awk "{ sum[\$1] += \$4 } END { exit !(sum[3] < sum[0]) }" log.1'

# The steps of the last round of an epoch depend on how it is filled up, the samples do not.
for processes in 1 2 3; do
    test_expect_success "$processes processes, an incomplete last round" '
        start $processes --project_dir odd.$processes --log log --samples 501 --total_batch_size 48 --epochs 2 && finish &&
        cut -d " " -f 1-3 log >odd.log.$processes && test "$(wc -l <odd.log.$processes)" = 1002'
done
test_expect_success 'the same samples on 1, 2 and 3 processes' 'cmp odd.log.1 odd.log.2 && cmp odd.log.1 odd.log.3'
test_expect_success 'every epoch has every sample once, in an order of its own' '
    cut -d " " -f 1,2 log.1 | sort -u | wc -l | grep -x $total && cut -d " " -f 2 log.1 >order &&
    sed -n "1,${samples}p" order >first && sed -n "$((samples + 1)),$((2 * samples))p" order >second && ! cmp -s first second'

# Eight times in different quarters of the run; whom and where exactly says the seed.
: >log
awk -v seed="$seed" -v total=$total 'BEGIN {
    srand (seed)
    split ("1 2 4", ranks)
    for (i = 0; i < 8; i++) {
        whom = int (rand () * 3)
        count = ranks[i % 3 + 1]
        print int ((i + rand ()) * total / 9) + 1, count, whom && whom <= count ? whom : "launcher"
    }
}' >plan
while read -r lines processes whom; do
    test_expect_success "$processes processes, killed at $lines lines: $whom" '
        start $processes --project_dir state --log log --step_ms 1 --every 7 && kill_at $lines $whom'
done <plan
test_expect_success "killed eight times, and the log is that of an undisturbed run (seed $seed)" '
    start 2 --project_dir state --log log && finish && cmp log log.1'
test_expect_success 'nothing is left to do' '
    start 4 --project_dir state --log log && finish && cmp log log.1'
test_expect_success 'more epochs continue where it ended' '
    start 4 --project_dir state --log log --epochs $((epochs + 1)) && finish &&
    test "$(wc -l <log)" = $((total + samples)) && head -n $total log | cmp - log.1'

# has_steps NUMBER: this checkpoint is there, or the run is over
has_steps () {
    has_ended || [ -e "recipe/checkpoints/checkpoint_$1/manifest.json" ]
}
test_expect_success '2 processes x 4 x 2, killed, then 1 process x 4 x 4: the same losses' '
    : >run.out && : >recipe.log && start 2 --project_dir recipe --log recipe.log --step_ms 1 --every 3 &&
    wait_for has_steps 3 && { kill -9 $launcher; finish || [ $? -ne 99 ]; } &&
    grep "2 process(es) x 4 x 2 passes, from epoch 0" run.out && test "$(wc -l <recipe.log)" -lt $total &&
    test_exit 1 "$resume" --project_dir recipe --log recipe.log --samples 7 2>error &&
    grep "in other data: 496 samples then, 7 samples now" error &&
    start 1 --project_dir recipe --log recipe.log && finish && grep "1 process(es) x 4 x 4 passes" run.out &&
    cmp recipe.log log.1'

test_expect_success 'accelerate launch --resume finds the checkpoint' '
    : >run.out && "$accelerate" launch --cpu --num_processes 2 --num_cpu_threads_per_process 1 --resume state \
        "$resume" --samples $samples --epochs $epochs --project_dir other --log log >run.out 2>&1 &&
    grep "resuming from .*/state/checkpoints/checkpoint_" run.out && test ! -e other/checkpoints/checkpoint_0 && test "$(wc -l <log)" = $((total + samples))'

test_expect_success 'a state that is not finite is passed over' '
    "$builddir/examples/digits" --epochs 1 --output_dir apart --checkpointing_steps epoch --lr 999999 --warmup 0 >/dev/null 2>&1 &&
    cp -r state beside && apart=beside/checkpoints/checkpoint_999.nonfinite &&
    cp -r apart/checkpoints/checkpoint_0.nonfinite $apart && start 2 --project_dir beside --log log --epochs $((epochs + 1)) && finish &&
    grep "passes over a checkpoint: $apart: .hidden.bias. is NaN at element 0" run.out &&
    test "$(wc -l <log)" = $((total + samples))'

# Launchers of several machines each look at their own disk; the ranks of machine 1 have no checkpoint here.
test_expect_success "ranks whose launcher found none continue from rank 0's checkpoint" '
    "$accelerate" launch --cpu --num_processes 2 --num_cpu_threads_per_process 1 --resume state \
        /bin/sh -c "test \$RANK = 0 || export ACCEL_RESUME_FROM=; exec \"\$@\"" sh "$resume" \
        --samples $samples --epochs $epochs --project_dir other --log log >run.out 2>&1 &&
    test ! -e other/checkpoints/checkpoint_0 && test "$(wc -l <log)" = $((total + samples))'

cp -r state bad
for file in bad/checkpoints/*/manifest.json; do
    printf x >>"$file"
done
: >empty.log
while IFS='|' read -r arguments message; do
    test_expect_success "$arguments: $message" '
        eval "test_exit 1 \"\$resume\" $arguments" >out 2>error && grep -F -- "$message" error'
done <<'E2'
--project_dir bad --log log|no usable checkpoint in bad/checkpoints
--project_dir state --log empty.log --samples 496|empty.log is shorter than the checkpoint records
--project_dir state --log log --samples 496 --seed 9|their orders differ
--project_dir state --log log --batch_size 3|the nearest possible values are 15 and 18
--every 0|--every: '0' is not a whole number
--sead 1|unknown option '--sead'
--log|--log: missing value
E2
test_expect_success 'the source compiles as it is installed' '
    $CC -std=gnu11 -Wall -Wextra -Werror -I"$srcdir/include" -fsyntax-only "$srcdir/examples/resume.c"'
test_expect_success 'resume --help is help' '"$resume" --help >out && grep "^usage: resume" out'
test_done
