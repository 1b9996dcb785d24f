#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --spot_notices: what clouds say about machines that they take away, from a server of ours that says it as they do.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/http/serve"

serve root requests || exit 99
AWS_EC2_METADATA_SERVICE_ENDPOINT=$url/
GCE_METADATA_HOST=${url#http://}
ACCELERATE_AZURE_METADATA_ENDPOINT=$url
http_proxy=http://127.0.0.1:1
export AWS_EC2_METADATA_SERVICE_ENDPOINT GCE_METADATA_HOST ACCELERATE_AZURE_METADATA_ENDPOINT http_proxy
unset no_proxy
printf TOKEN1 >root/token1
printf TOKEN2 >root/token2
printf '{"action": "terminate", "time": "2026-11-28T22:00:00Z"}' >root/notice
printf 'not JSON' >root/garbage
printf TRUE >root/true
printf FALSE >root/false
printf 'vm-2' >root/name
# events TYPE MACHINE: Azure's list
events () {
    printf '{"DocumentIncarnation": 2, "Events": [{"EventId": "A", "EventStatus": "Scheduled", "EventType": "%s",' "$1"
    printf '"ResourceType": "VirtualMachine", "Resources": ["%s"], "NotBefore": "Sat, 28 Nov 2026 22:00:00 GMT"}]}' "$2"
}
printf '{"DocumentIncarnation": 1, "Events": []}' >root/none
events Preempt VM-2 >root/ours
events Preempt vm-1 >root/others
events Freeze vm-2 >root/freeze
action=/latest/meta-data/spot/instance-action
session='/latest/api/token match=PUT_ file=token1'
preempted=/computeMetadata/v1/instance/preempted
scheduled=/metadata/scheduledevents
name='/metadata/instance/compute/name match=Metadata:_true file=name'

# start CLOUD ARGUMENT...: three ranks, with the program's arguments
start () {
    cloud=$1
    shift
    "$accelerate" launch --cpu --num_processes 3 --num_cpu_threads_per_process 1 --max_restarts 1 \
        --spot_notices "$cloud" --failure_report report.json "$builddir/examples/resume" --samples 240 --epochs 3 --total_batch_size 24 \
        --every 1000 "$@" >run.out 2>run.err &
    launcher=$!
}
has_ended () { ! kill -0 "$launcher" 2>/dev/null; }
finish () {
    wait_for has_ended || { kill -9 "$launcher" && return 99; }
    wait "$launcher"
}
has_lines () { has_ended || { [ -e log ] && [ "$(wc -l <log)" -ge 24 ]; }; }
asked () { has_ended || [ "$(cat requests/* 2>/dev/null | grep -c "$1")" -ge "${2:-1}" ]; }
# stopped WHAT: saved and ended, as the one line of the report says, because of that notice
stopped () {
    test_exit 75 finish && cat run.err && test "$(wc -l <run.err)" = 1 && grep "^accelerate: saved step [0-9]* on all ranks, \
then ended because this machine will be taken away ($1)$" run.err && step=$(sed -n "s/.*saved step \([0-9]*\).*/\1/p" run.err) &&
        test "$(wc -l <log)" = $((24 * step))
}
# watch_without_stop CLOUD TEXT [TIMES]: that is asked for, a job of some time ends well
watch_without_stop () {
    rm -f go
    "$accelerate" launch --cpu --num_processes 2 --spot_notices "$1" sh -c 'until [ -e go ]; do sleep 0.1; done' 2>run.err &
    launcher=$!
    wait_for asked "$2" "${3:-2}" && : >go && finish
}
# one_warning TEXT
one_warning () {
    cat run.err && test "$(wc -l <run.err)" = 1 && grep "^accelerate: cannot ask [a-zA-Z]* for spot notices (asked again every 5 s): .*$1" run.err
}

test_expect_success 'a run that is never asked' '
    "$accelerate" launch --cpu --num_processes 3 --num_cpu_threads_per_process 1 "$builddir/examples/resume" --samples 240 \
        --epochs 3 --total_batch_size 24 --every 1000 --project_dir whole --log whole.log && ! test -e requests/1'

# ---- AWS ----

test_expect_success 'AWS: no notice' '
    rules "$session" && watch_without_stop aws "$action" && ! test -s run.err && test "$(cat requests/* | grep -c ^PUT)" = 1 &&
    grep "^X-aws-ec2-metadata-token-ttl-seconds: 21600" requests/1 && grep "^X-aws-ec2-metadata-token: TOKEN1" requests/2 &&
    nothing_left'
test_expect_success 'AWS: a notice: saved on all ranks, and the run that continues has the same bits' '
    rm -f log && rules "$session" "$action unless=TOKEN1 status=401" && start aws --project_dir aws --log log --step_ms 200 &&
    wait_for has_lines && rules "$session" "$action unless=TOKEN1 status=401" "$action file=notice" &&
    stopped "AWS spot notice: terminate at 2026-11-28T22:00:00Z" && grep "\"saved_step\":$step," report.json && nothing_left &&
    rules "$session" && start aws --project_dir aws --log log && finish && cmp log whole.log'
is_long && test_expect_success 'AWS: a session that has expired is begun again' '
    rules "$session" && { watch_without_stop aws "$action" 3 & } && own=$! && wait_for test -e requests/2 &&
    rules "/latest/api/token match=PUT_ file=token2" "$action unless=TOKEN2 status=401" && wait $own && ! test -s run.err &&
    cat requests/* | grep "^X-aws-ec2-metadata-token: TOKEN2" && test "$(cat requests/* | grep -c ^PUT)" = 1'
is_long && test_expect_success 'AWS: an answer that makes no sense is one warning' '
    rules "$session" "$action file=garbage" && watch_without_stop aws "$action" 3 && one_warning "the answer is not valid JSON" && nothing_left'
is_long && test_expect_success 'AWS: a server that fails, and one that hangs, hold up nothing' '
    rules "$session" "$action status=503" && watch_without_stop aws "$action" 2 && one_warning "the answer has status 503" &&
    rules "$session delay=600000" && watch_without_stop aws "PUT " 2 && one_warning "" && nothing_left'
test_expect_success 'a server that is missing is one warning' '
    (export AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:1 &&
        "$accelerate" launch --cpu --num_processes 2 --spot_notices aws sleep 8 2>run.err) && one_warning 127.0.0.1:1 && nothing_left'
test_expect_success 'a notice before the ranks can save ends them, and is the reason' '
    rules "$session" "$action file=notice" && test_exit 75 "$accelerate" launch --cpu --num_processes 2 --max_restarts 3 \
        --spot_notices aws sleep 1000 2>run.err && cat run.err && grep "^accelerate: ended because this machine will be taken \
away (AWS spot notice: terminate at 2026-11-28T22:00:00Z)$" run.err && nothing_left'
cat >fails <<'END'
if [ -e noticed ]; then
    exec sleep 1000
fi
trap ': >told' TERM
: >"up.$RANK"
until [ -e fail ]; do sleep 0.1; done
if [ "$RANK" = 0 ]; then
    exit 3
fi
until [ -e noticed ]; do sleep 0.1; done
END
test_expect_success 'a notice while the ranks of a failed job end counts for those that are started again' '
    rules "$session" && { "$accelerate" launch --cpu --num_processes 2 --max_restarts 1 --grace 600 --spot_notices aws \
        sh fails 2>run.err & } && launcher=$! && wait_for test -e up.0 && wait_for test -e up.1 && : >fail &&
    wait_for test -e told && rules "$session" "$action file=notice" && wait_for asked "$action" 2 && : >noticed &&
    test_exit 75 finish && cat run.err && grep "restarting all ranks (1 of 1)" run.err &&
    grep "^accelerate: ended because this machine will be taken away" run.err && nothing_left'
test_expect_success 'whichever process of the launcher is killed, none is left' '
    rules "$session delay=600000" && for victim in guardian supervisor; do
        rm -f log && start aws --log log --step_ms 500 && wait_for has_lines && pgrep -P "$launcher" -x accel-spot &&
        pid=$launcher && { test $victim = guardian || pid=$(pgrep -P "$launcher" -x accel-job); } &&
        children=$(pgrep -P "$launcher") && kill -9 "$pid" && { finish || :; } && gone $children && nothing_left || return 1
    done'
is_long && test_expect_success 'the process that asks is killed: a warning, and the job ends well' '
    rules "$session" && rm -f go && { "$accelerate" launch --cpu --num_processes 2 --spot_notices aws sh -c \
        "until [ -e go ]; do sleep 0.1; done" 2>run.err & } && launcher=$! && wait_for pgrep -P $launcher -x accel-spot &&
    kill -9 $(pgrep -P $launcher -x accel-spot) && wait_for test -s run.err && : >go && finish &&
    test "$(cat run.err)" = "accelerate: the process that watches for spot notices has ended"'
test_expect_success 'it has no descriptor of the launcher' '
    rules "$session delay=600000" && rm -f log && start aws --log log --step_ms 500 && wait_for has_lines &&
    ls -l "/proc/$(pgrep -P "$launcher" -x accel-spot)/fd" >fds && ! grep -E "run\.(out|err)|memfd" fds && kill "$launcher" &&
    test_exit 143 finish'

# ---- GCP, Azure ----

test_expect_success 'GCP: no notice, and one' '
    rules "$preempted match=Metadata-Flavor:_Google file=false" && watch_without_stop gcp "$preempted" && ! test -s run.err &&
    rm -f log && start gcp --project_dir gcp --log log --step_ms 200 && wait_for has_lines &&
    rules "$preempted match=Metadata-Flavor:_Google file=true" && stopped "GCP spot notice" && nothing_left'
is_long && test_expect_success 'GCP: another answer, as of another cloud' '
    rules "$preempted file=garbage" && watch_without_stop gcp "$preempted" && one_warning "the answer is neither TRUE nor FALSE" &&
    rules && watch_without_stop gcp "$preempted" && one_warning "the answer has status 404"'
test_expect_success 'Azure: no notice, one of another kind, one for another machine, and one for this' '
    rules "$name" "$scheduled match=Metadata:_true times=1 file=none" "$scheduled times=1 file=freeze" "$scheduled file=others" &&
    watch_without_stop azure "$scheduled?api-version=" 4 && ! test -s run.err && rm -f log &&
    start azure --project_dir azure --log log --step_ms 200 && wait_for has_lines && rules "$name" "$scheduled file=ours" &&
    stopped "Azure spot notice: Preempt not before Sat, 28 Nov 2026 22:00:00 GMT" && nothing_left'
test_expect_success 'Azure: a machine that does not know its name takes the notice for its own' '
    rules "$scheduled file=others" && test_exit 75 "$accelerate" launch --cpu --spot_notices azure sleep 1000'

# ---- options ----

test_expect_success 'other clouds, and other launchers on several machines, are refused' '
    test_exit 2 "$accelerate" launch --cpu --spot_notices ibm true 2>err && grep "aws, gcp" err &&
    test_exit 2 "$accelerate" launch --cpu --spot_notices aws --num_machines 2 --num_processes 2 --machine_rank 0 \
        --main_process_ip a --mpirun_hostfile hosts true 2>err && grep "spot_notices cannot be combined with num_machines" err'
test_expect_success 'a dry run asks nothing' '
    rules "$session" "$action file=notice" && "$accelerate" launch --cpu --spot_notices aws --dry_run true && ! test -e requests/1'
test_done
