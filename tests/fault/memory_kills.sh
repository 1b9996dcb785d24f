#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ranks are killed again and again, and continue from memory: the log of examples/resume becomes that of an undisturbed
# run, and no kill costs more steps than there are between two saves.  Nothing stays when launchers are killed.
. "${srcdir:-.}/tests/testlib.sh"

resume=$builddir/examples/resume
seed=${MEMORY_KILLS_SEED:-31} kills=8 every=5 samples=496
is_long && kills=40
kills=${KILLS:-$kills}
epochs=$((kills * 4)) # 31 steps each: more than there are between two kills
ACCELERATE_LOG_LEVEL=info
export ACCELERATE_LOG_LEVEL

# start OPTION... -- ARGUMENT...: in the background, its pid in $launcher
start () {
    options=
    while [ "$1" != -- ]; do
        options="$options $1"
        shift
    done
    shift
    # shellcheck disable=SC2086 # a list of words
    "$accelerate" launch --cpu --num_processes 2 --num_cpu_threads_per_process 1 $options "$resume" \
        --samples $samples --epochs $epochs --every 1000000 "$@" >run.out 2>&1 &
    launcher=$!
}
has_ended () { ! kill -0 "$launcher" 2>/dev/null; }
finish () {
    wait_for has_ended || { kill -9 "$launcher" && return 99; }
    wait "$launcher"
}
ranks () {
    supervisor=$(pgrep -d, -P "$launcher") || { tail -n 20 run.out >&2 && return 1; }
    pgrep -P "$supervisor" -x resume
}
# has_started COUNT: the ranks have loaded their state as often, or the run is over
has_started () {
    has_ended || [ "$(grep -c "process(es) x" run.out)" -ge "$1" ]
}
# strike COUNT: the ranks stand still while the log is measured; then one of them is killed
strike () {
    draw 30 10
    wait_for has_started "$1" && sleep "0.$drawn" && pids=$(ranks) && [ "$(echo "$pids" | wc -l)" = 2 ] || return 1
    draw 2 1
    # shellcheck disable=SC2086 # two of them
    kill -STOP $pids && sleep 0.02 && wc -l <log >>lines && kill -9 "$(echo "$pids" | sed -n "${drawn}p")" &&
        { kill -CONT $pids 2>/dev/null || :; }
}
strike_all () {
    : >lines
    struck=0
    while [ $struck -lt $kills ]; do
        struck=$((struck + 1))
        strike $struck || { tail -n 5 run.out && return 1; }
    done
    wait_for has_started $((struck + 1))
}

test_expect_success 'an undisturbed run' 'start -- --project_dir plain --log plain.log && finish'
test_expect_success "$kills kills" '
    : >log && start --max_restarts 1000 --memory_checkpoint_every $every -- --project_dir killed --log log --step_ms 2 &&
    strike_all && finish'
test_expect_success 'the log is that of an undisturbed run' 'cmp log plain.log'
# A line of "from" for each restart: the step that it continued from, 0 without one.
test_expect_success "each cost at most $every steps and the one that was not complete" '
    awk "/restarting all ranks/ { if (n++) print step; step = 0 } /continuing from memory, after step/ { step = \$NF }
         END { if (n) print step }" run.out >from && test "$(wc -l <from)" = $kills &&
    test "$(wc -l <lines)" = $kills && paste -d " " lines from >lost && cat lost &&
    awk "{ lost = \$1 / 16 - \$2; if (lost > $every + 1) exit 1 }" lost'

test_expect_success 'without the option, the ranks begin again' '
    : >log && start --max_restarts 1000 -- --project_dir none --log log --step_ms 5 --epochs 3 && wait_for has_started 1 &&
    sleep 0.3 && kill -9 "$(ranks | sed 1q)" && finish && ! grep "from memory" run.out'

# The memory has no name, so it is gone with the processes that have it open.
for victim in launcher supervisor both; do
    test_expect_success "nothing is left behind: $victim killed" '
        : >log && start --max_restarts 9 --memory_checkpoint_every 1 -- --project_dir left.$victim --log log --step_ms 5 &&
        wait_for has_started 1 && sleep 0.2 && all=$(ranks) && below=$(pgrep -P $launcher) &&
        ls -l /proc/$below/fd >files && grep "memfd:accel-checkpoints" files && ls /dev/shm >shm && ! grep accel-checkpoints shm &&
        case $victim in
        launcher) kill -9 $launcher ;;
        supervisor) kill -9 $below ;;
        both) kill -9 $launcher $below ;;
        esac && { finish; test $? -ne 99; } && gone $below $all'
done

# What is free differs from moment to moment.
test_expect_success 'its size is said before: how many states, and what is left for them' '
    "$accelerate" launch --cpu --num_processes 2 --max_restarts 1 --memory_checkpoint_every 5 true 2>notes && cat notes &&
    grep -E "^accelerate: note: checkpoints in memory take up to 2 times what each rank saves; (this host|the control group of the job) has [1-9][0-9]* MiB left for them$" notes &&
    "$accelerate" launch --cpu --num_processes 2 --max_restarts 1 true 2>notes && ! grep checkpoints notes &&
    "$accelerate" launch --cpu --quiet --num_processes 2 --max_restarts 1 --memory_checkpoint_every 5 true 2>notes &&
    ! test -s notes'
says_size () { grep -E "^accelerate: note: checkpoints in memory of this job take [1-9][0-9]* MiB on $(uname -n)$" "$1"; }
test_expect_success 'the first saves say how much memory all take, once, by default' '
    start --max_restarts 1 --memory_checkpoint_every 1 -- --project_dir size --log size.log --step_ms 20 --epochs 20 &&
    wait_for says_size run.out && pids=$(ranks) && kill -KILL "${pids%%[!0-9]*}" && finish && test "$(says_size run.out | wc -l)" = 1'
test_expect_success 'it needs restarts, and files of any size' '
    test_exit 2 "$accelerate" launch --cpu --memory_checkpoint_every 5 "$resume" 2>error &&
    grep "memory_checkpoint_every needs max_restarts" error &&
    test_exit 1 sh -c "ulimit -f 1000000 && exec \"\$@\"" sh "$accelerate" launch --cpu --max_restarts 1 \
        --memory_checkpoint_every 5 "$resume" 2>error && grep -F "memory_checkpoint_every: checkpoints in memory need files of unlimited size: ulimit -f unlimited" error &&
    test_exit 0 sh -c "ulimit -f 1000000 && exec \"\$@\"" sh "$accelerate" launch --cpu --max_restarts 1 true'
test_done
