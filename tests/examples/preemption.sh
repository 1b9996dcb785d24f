#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Requests to save and to stop: they come to one rank, or to the launcher, at any moment; all ranks save the same step,
# and the run that continues has the bits of one that was never asked.
. "${srcdir:-.}/tests/testlib.sh"

resume=$builddir/examples/resume
seed=${PREEMPTION_TEST_SEED:-$$}
samples=240 epochs=3
total=$((samples * epochs))
rounds=6
if is_long; then
    rounds=20
fi
rounds=${ROUNDS:-$rounds}

# start ARGUMENT...: launch options, then -- and those of the program; its pid in $launcher
start () {
    options=
    while [ "$1" != -- ]; do
        options="$options $1"
        shift
    done
    shift
    # shellcheck disable=SC2086
    "$accelerate" launch --cpu --num_processes 3 --num_cpu_threads_per_process 1 $options "$resume" \
        --samples $samples --epochs $epochs --total_batch_size 24 --every 1000 "$@" >run.out 2>run.err &
    launcher=$!
}
has_ended () { ! kill -0 "$launcher" 2>/dev/null; }
finish () {
    wait_for has_ended || { kill -9 "$launcher" && return 99; }
    wait "$launcher"
}
has_lines () { has_ended || [ "$(wc -l <"${1:-log}")" -ge "$2" ]; }
# ranks: their pids
ranks () {
    for child in $(pgrep -P "$launcher"); do
        pgrep -P "$child" -x "${1:-resume}"
    done
    pgrep -P "$launcher" -x "${1:-resume}"
}
have_begun () { has_ended || [ "$(ranks "$1" | wc -l)" = 2 ]; }

test_expect_success 'a run that is never asked' '
    start -- --project_dir whole --log whole.log && finish && test "$(wc -l <whole.log)" = $total'

test_expect_success 'SIGUSR1 to the launcher: one checkpoint, and the run goes on' '
    start -- --project_dir usr --log log --step_ms 50 && wait_for has_lines log 48 && kill -USR1 "$launcher" && finish &&
    test "$(ls usr/checkpoints | wc -l)" = 2 && cmp log whole.log && ! test -s run.err'
test_expect_success 'SIGTERM to the launcher: saved on all ranks, ended by SIGTERM, whatever restarts are left' '
    rm -f log && start --max_restarts 3 --failure_report report.json -- --project_dir term --log log --step_ms 50 &&
    wait_for has_lines log 48 && kill -TERM "$launcher" && test_exit 143 finish &&
    grep "^accelerate: saved step [0-9]* on all ranks, then ended by SIGTERM$" run.err && test "$(wc -l <run.err)" = 1 &&
    step=$(sed -n "s/.*saved step \([0-9]*\).*/\1/p" run.err) && test "$(wc -l <log)" = $((24 * step)) &&
    grep "\"signal\":15,\"saved_step\":$step," report.json && start -- --project_dir term --log log && finish &&
    cmp log whole.log'
# restarted OPTION...: a rank is asked to stop, after more than 2 steps.  The launch goes on, and ends well.
restarted () {
    rm -rf log rank && start --max_restarts 1 --failure_report report.json "$@" -- --project_dir rank --log log --step_ms 50 &&
        wait_for has_lines log 48 && kill -TERM "$(ranks | sed -n 2p)" && finish && cmp log whole.log &&
        grep -v "note: checkpoints in memory" run.err | sed -n 1p | grep "^accelerate: saved step [0-9]* on all ranks, then ended as a signal to a rank asked$" &&
        grep "^accelerate: restarting all ranks (1 of 1)$" run.err && ! grep "killed" run.err &&
        grep "\"restart_count\":1," report.json
}
test_expect_success 'SIGTERM to a rank, with a restart left: saved on all ranks, which continue from there' restarted
test_expect_success 'the same with checkpoints in memory, which are older' 'restarted --memory_checkpoint_every 16'
test_expect_success 'SIGTERM to a rank more often than that: saved, ended, and the next launch resumes' '
    rm -rf log rank && start --max_restarts 1 -- --project_dir rank --log log --step_ms 60 &&
    wait_for has_lines log 48 && kill -TERM "$(ranks | sed -n 2p)" && wait_for grep -q "restarting all ranks (1 of 1)" run.err &&
    lines=$(wc -l <log) && wait_for has_lines log $((lines + 48)) && kill -TERM "$(ranks | sed -n 3p)" &&
    test_exit 75 finish && test "$(grep -c "^accelerate: saved step [0-9]* on all ranks" run.err)" = 2 &&
    start --resume rank -- --project_dir rank --log log && finish && cmp log whole.log'
cat >stays <<\END
#!/bin/sh
# Rank 1 fails; rank 0 stays after SIGTERM until there is a file.
[ "$RANK" = 0 ] || { while [ ! -e up ]; do sleep 0.1; done; exit 3; }
trap 'echo >told' TERM
: >up
while [ ! -e leave ]; do sleep 0.1; done
END
test_expect_success 'SIGTERM to the launcher while it ends ranks after a failure: none is started again' '
    chmod +x stays && { "$accelerate" launch --cpu --num_processes 2 --max_restarts 3 ./stays 2>run.err & } && launcher=$! &&
    await told && kill -TERM $launcher && sleep 0.5 && : >leave && test_exit 3 finish && ! grep "restarting" run.err'
test_expect_success 'a time limit: saved, and the status that asks for another start' '
    rm -f log && start --time_limit 1 --max_restarts 3 -- --project_dir limit --log log --step_ms 50 &&
    test_exit 75 finish && grep "^accelerate: saved step [0-9]* on all ranks, then ended at the time limit$" run.err &&
    test "$(wc -l <run.err)" = 1 && start -- --project_dir limit --log log && finish && cmp log whole.log'
test_expect_success 'the end of a Slurm job, --grace before' '
    rm -f log && SLURM_JOB_END_TIME=$(($(date +%s) + 7)) && export SLURM_JOB_END_TIME &&
    start --grace 5 -- --project_dir slurm --log log --step_ms 200 && test_exit 75 finish &&
    grep "^accelerate: saved step [0-9]* on all ranks, then ended before the end of its Slurm job$" run.err &&
    unset SLURM_JOB_END_TIME && start -- --project_dir slurm --log log && finish && cmp log whole.log'
test_expect_success 'programs that do not ask are left alone by it, but not by a time limit' '
    SLURM_JOB_END_TIME=$(($(date +%s) + 2)) "$accelerate" launch --cpu --num_processes 2 --grace 1 sleep 3 &&
    test_exit 75 "$accelerate" launch --cpu --num_processes 2 --time_limit 1 --failure_report report.json sleep 1000 2>err &&
    grep "^accelerate: ended at the time limit$" err && grep "\"saved_step\":null,\"stop_reason\":\"at the time limit\"" report.json &&
    "$accelerate" report report.json -o page.html && grep "ended at the time limit" page.html'
test_expect_success 'a file asks for a checkpoint, and is removed' '
    rm -f log && start --checkpoint_file ask -- --project_dir file --log log --step_ms 60 && wait_for has_lines log 24 &&
    : >ask && finish && ! test -e ask && test "$(ls file/checkpoints | wc -l)" = 2 && cmp log whole.log'
test_expect_success 'SIGUSR1 ends no program that does not know it' '
    { "$accelerate" launch --cpu --num_processes 2 sleep 1.5 & } && launcher=$! &&
    wait_for have_begun sleep && { kill -USR1 $launcher || :; } && wait $launcher'
test_expect_success 'a rank that fails ends the others at once, although they take SIGTERM for a request' '
    rm -f log && start -- --project_dir fail --log log --step_ms 60000 && wait_for has_lines log 8 &&
    kill -ABRT "$(ranks | sed -n 2p)" && test_exit 134 finish && ! grep "had to be killed" run.err'

# Any moment of a run: before accel_open, while the state is loaded, in a step, in a save, when it is done.  Whoever gets
# the signal before it can be taken ends, and the job fails; nothing is lost then, for nothing was done.
lines_of () { if [ -e "$1" ]; then wc -l <"$1"; else echo 0; fi; }
# attempt NUMBER: until the run is complete
attempt () {
    rm -rf log state
    for turn in 1 2 3 4 5; do
        before=$(lines_of log)
        start -- --project_dir state --log log --step_ms 8 &&
            sleep "0.$(printf %03d $((($1 * 7919 + turn * 104729 + seed) % 500)))" || return 1
        whom=$launcher
        [ $((turn % 2)) = 0 ] || whom=$(ranks | sed -n "$((($1 + turn) % 3 + 1))p")
        kill -TERM "${whom:-$launcher}" 2>/dev/null
        finish
        status=$?
        echo "$1.$turn: ${whom:-$launcher} of $launcher, status $status, $(lines_of log) lines: $(head -n 1 run.err)"
        case $status in
        0) return ;;
        75 | 143) ;;
        *) return 1 ;;
        esac
        lines=$(lines_of log)
        if step=$(grep "^accelerate: saved step [0-9]* on all ranks, then ended " run.err); then
            step=${step#*step }
            [ "$lines" = $((24 * ${step%% *})) ] || return 1
        elif [ "$lines" != $total ]; then
            [ "$status" = 143 ] && [ "$lines" = "$before" ] && ! grep "had to be killed" run.err || return 1
        fi
    done
    start -- --project_dir state --log log && finish
}
for round in $(seq "$rounds"); do
    test_expect_success "round $round: the bits of a run that was never asked (seed $seed)" "
        attempt $round && cmp log whole.log"
done

# Three moments that random ones seldom meet: while the state is loaded, in the first step, in an evaluation.
# catches PID: its handler for SIGTERM is there, so accel_open() is over
catches () {
    has_ended || case $(sed -n "s/^SigCgt:[[:space:]]*............\(.\)...$/\1/p" "/proc/$1/status" 2>/dev/null) in
    [4567c-f]) ;;
    *) return 1 ;;
    esac
}
are_up () { has_ended || [ "$(ranks | wc -l)" = 3 ]; }
evaluates () { has_ended || [ "$(grep -c "^evaluating" run.out)" -ge "$1" ]; }
# reach MOMENT BEFORE: the run is there; the log had BEFORE lines
reach () {
    wait_for are_up && pid=$(ranks | sed -n "${victim}p") || return 1
    case $1 in
    loading) wait_for catches "$pid" ;;
    first) wait_for has_lines log $(($2 + 1)) ;;
    evaluation) wait_for evaluates 1 ;;
    esac
}
# asked_at MOMENT TURN: a rank is, or in each fourth turn the launcher, unless ONLY_RANKS is set; all save the same step,
# which is what the log has
asked_at () {
    victim=$(($2 % 3 + 1)) before=$(lines_of log)
    start -- --project_dir state --log log --step_ms 25 --evaluate 2 && reach "$1" "$before" || return 1
    how="as a signal to a rank asked" expected=75
    [ -n "${ONLY_RANKS-}" ] || [ $(($2 % 4)) != 0 ] || { pid=$launcher how="by SIGTERM" expected=143; }
    kill -TERM "$pid" && test_exit $expected finish && cat run.err && ! grep "killed" run.err &&
        grep "^accelerate: saved step [0-9]* on all ranks, then ended $how$" run.err &&
        step=$(sed -n "s/.*saved step \([0-9]*\).*/\1/p" run.err) && test "$(wc -l <log)" = $((24 * step)) &&
        test $((24 * step)) -gt "$before"
}
# ask_often MOMENT TIMES: a run that is complete after some of these, and then another one
ask_often () {
    rm -rf log state
    for turn in $(seq "$2"); do
        if [ "$(lines_of log)" -ge $((total - 360)) ]; then # the rest without a signal
            start -- --project_dir state --log log && finish && cmp log whole.log && rm -rf log state || return 1
        fi
        asked_at "$1" "$turn" || { cat run.out run.err && return 1; }
    done
    start -- --project_dir state --log log && finish && cmp log whole.log
}
times=2
! is_long || times=8
times=${TIMES:-$times}
for moment in loading first evaluation; do
    test_expect_success "$moment: $times times of $times all save the same step, and the bits stay" "ask_often $moment $times"
done
test_done
