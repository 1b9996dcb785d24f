#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Requests to save and to stop on two hosts: whoever gets one, all ranks save the same step.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/hosts/lab"
mpirun --version >version 2>&1 || :
if ! grep -q "Open MPI" version; then
    skip_rest 'there is no mpirun of Open MPI'
fi
ACCEL_ENGINE_PATH=$builddir/src/engines/mpi/.libs
if [ ! -f "$ACCEL_ENGINE_PATH/accel_engine_mpi.so" ]; then
    skip_rest 'engine mpi is not built'
fi
begin_lab 2 || exit
allow_leaks_of_mpi || exit
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base=/run
PRTE_MCA_prte_tmpdir_base=/run # of Open MPI 5
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_orte_tmpdir_base PRTE_MCA_prte_tmpdir_base \
    ACCEL_ENGINE_PATH
rounds=1
if is_long; then
    rounds=8
fi

# start ARGUMENT...: launch options, then -- and those of the program; the head is process $head
start () {
    options=
    while [ "$1" != -- ]; do
        options="$options $1"
        shift
    done
    shift
    # shellcheck disable=SC2086
    on host1 "$accelerate" launch --cpu --starter mpirun --hosts host1:1,host2:2 $options "$builddir/examples/resume" \
        --samples 240 --epochs 3 --total_batch_size 24 --every 1000 --project_dir state "$@" >out 2>err &
    head=$!
}
has_lines () { [ -e log ] && [ "$(wc -l <log)" -ge 96 ]; }
# saved HOW: the report's one line, and the log ends with that step
saved () {
    cat err && grep "^accelerate: saved step [0-9]* on all ranks, then ended $1$" err && says_one_line &&
        step=$(sed -n "s/.*saved step \([0-9]*\).*/\1/p" err) && test "$(wc -l <log)" = $((24 * step))
}
# continues: from that step, to the log of a run that was never asked
continues () {
    start -- --log log && finish 0 && cmp log whole.log && all_clean host1 host2
}

test_expect_success 'a run that is never asked' '
    start -- --log whole.log && finish 0 && test "$(wc -l <whole.log)" = 720 && rm -rf state'
for round in $(seq "$rounds"); do
    test_expect_success "$round: SIGTERM to a rank of the second host" '
        rm -rf state log && start --failure_report report.json -- --log log --step_ms 20$round && wait_for has_lines &&
        rank=$(on host2 pgrep -n -x resume) && on host2 kill -TERM "$rank" && finish 75 && saved "as a signal to a rank asked" &&
        grep "\"stop_reason\":\"as a signal to a rank asked\"" report.json && continues'
done
test_expect_success 'SIGTERM to a rank of the second host, with a restart left: all continue from there' '
    rm -rf state log && start --max_restarts 1 -- --log log --step_ms 50 && wait_for has_lines &&
    rank=$(on host2 pgrep -n -x resume) && on host2 kill -TERM "$rank" && finish 0 && cat err &&
    grep "^accelerate: saved step [0-9]* on all ranks, then ended as a signal to a rank asked$" err &&
    grep "^accelerate: restarting all ranks (1 of 1)$" err && cmp log whole.log && all_clean host1 host2'
test_expect_success 'SIGTERM to the head' '
    rm -rf state log && start --max_restarts 3 -- --log log --step_ms 200 && wait_for has_lines && on host1 pkill -TERM -o -x accelerate &&
    finish 143 && saved "by SIGTERM" && continues'
test_expect_success 'a time limit' '
    for limit in 3 8 20; do
        rm -rf state log && start --time_limit $limit --failure_report report.json -- --log log --step_ms 1000 && finish 75 || return 1
        ! grep -q "saved step" err || break # else the ranks had not met by then
    done && saved "at the time limit" && grep "\"stop_reason\":\"at the time limit\"" report.json && continues'
test_expect_success 'a rank that fails ends those of the other host at once' '
    rm -rf state log && start -- --log log --step_ms 60000 && wait_for test -s log &&
    rank=$(on host1 pgrep -n -x resume) && on host1 kill -ABRT "$rank" && finish 134 && ! grep "had to be killed" err &&
    all_clean host1 host2'
. "$srcdir/tests/http/serve"
# A host's metadata service is at an address of its own; host1 has none here.
test_expect_success 'a spot notice of one host' '
    mkdir -p metadata && printf "/computeMetadata/v1/instance/preempted file=answer\n" >metadata/.rules && printf FALSE >metadata/answer &&
    { on host2 "$builddir/tests/http/server" metadata 1 & } && server=$! && await metadata/.port &&
    GCE_METADATA_HOST=127.0.0.1:$(cat metadata/.port) && export GCE_METADATA_HOST && rm -rf state log &&
    start --spot_notices gcp -- --log log --step_ms 200 && wait_for has_lines && printf TRUE >metadata/answer && finish 75 && cat err &&
    grep "^accelerate: host host1: cannot ask GCP for spot notices (asked again every 5 s): " err &&
    grep "^accelerate: saved step [0-9]* on all ranks, then ended because host2 will be taken away (GCP spot notice)$" err &&
    step=$(sed -n "s/.*saved step \([0-9]*\).*/\1/p" err) && test "$(wc -l <log)" = $((24 * step)) &&
    test_exit 75 on host1 "$accelerate" launch --cpu --hosts host1:1,host2:2 --spot_notices gcp sleep 1000 2>err && cat err &&
    grep "^accelerate: ended because host2 will be taken away (GCP spot notice)$" err && on host2 pkill -x server &&
    { wait $server || :; } && continues'
test_done
