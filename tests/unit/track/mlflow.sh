#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tracker mlflow against a server with the answers of MLflow 3.17; what is sent, when the server is away, and later.
# With MLFLOW_TEST_SERVER=URL, against a real one, too.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/http/serve"

real=${MLFLOW_TEST_SERVER-}
for name in $(env | sed -n 's/^\(MLFLOW_[A-Z_]*\)=.*/\1/p'); do
    unset "$name"
done
run=$builddir/tests/unit/track/track_run
module=$builddir/src/mlflow/.libs/accel_tracker_mlflow.so
[ -e "$module" ] || skip_rest 'no modules in this build'
mkdir modules && cp "$module" modules && chmod go-w modules/*
ACCEL_ENGINE_PATH=$PWD/modules
export ACCEL_ENGINE_PATH
serve root requests || exit 99
echo '{"experiment": {"experiment_id": "7", "name": "project", "artifact_location": "mlflow-artifacts:/7",
    "lifecycle_stage": "active", "last_update_time": 1795889768051, "creation_time": 1795889768051}}' >root/experiment
echo '{"experiment_id": "8"}' >root/made
echo '{"run": {"info": {"run_uuid": "0f", "experiment_id": "7", "run_name": "gifted-skunk-450", "user_id": "",
    "status": "RUNNING", "start_time": 5, "artifact_uri": "mlflow-artifacts:/7/0f/artifacts", "lifecycle_stage": "active",
    "run_id": "0f"}, "data": {"tags": [{"key": "mlflow.runName", "value": "gifted-skunk-450"}]}, "inputs": {}}}' >root/run
echo '{"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Could not find experiment", "sqlstate": "KAM00"}' >root/none
echo '{"error_code": "INVALID_PARAMETER_VALUE", "message": "Changing param values is not allowed"}' >root/changed
echo '{}' >root/empty
api=/api/2.0/mlflow
get="$api/experiments/get-by-name file=experiment" create="$api/runs/create file=run"
batch="$api/runs/log-batch file=empty" update="$api/runs/update file=empty"
MLFLOW_TRACKING_URI=$url/
export MLFLOW_TRACKING_URI

# asked N: the method, path and body of request N
asked () {
    head -n 1 "requests/$1" | cut -d' ' -f1,2 && sed '1,/^.$/d' "requests/$1"
}
# no_times: in place of each time, T
no_times () {
    sed -E 's/("(start_time|end_time|timestamp)":)[0-9]+/\1T/g'
}

cat >expected <<END
GET $api/experiments/get-by-name?experiment_name=project
POST $api/runs/create
{"experiment_id":"7","start_time":T,"tags":[]}
POST $api/runs/log-batch
{"run_id":"0f","metrics":[{"key":"train/loss","value":1,"timestamp":T,"step":0},{"key":"train/loss","value":0.5,"timestamp":T,"step":1}],"params":[{"key":"lr","value":"0.001"},{"key":"model","value":"mlp"}]}
POST $api/runs/update
{"run_id":"0f","status":"FINISHED","end_time":T}
END
test_expect_success 'an experiment, a run, its parameters and metrics, and its end' '
    rules "$get" "$create" "$batch" "$update" && "$run" mlflow logs 2 2>err && cat err && requests_are 4 &&
    for n in 1 2 3 4; do asked $n; test $n = 1 || echo; done | no_times >got && diff expected got &&
    test "$(grep -c "takes numbers only" err)" = 3 && test -z "$(ls logs/project 2>/dev/null)"'
test_expect_success 'an experiment that does not exist is created' '
    rules "$api/experiments/get-by-name status=404 file=none" "$api/experiments/create file=made" "$create" "$batch" "$update" &&
    MLFLOW_EXPERIMENT_NAME="a & b" "$run" mlflow logs 1 2>err && asked 1 >out && grep -F "experiment_name=a%20%26%20b" out &&
    asked 2 >out && grep -F "{\"name\":\"a & b\"}" out && asked 3 >out && grep -F "\"experiment_id\":\"8\"" out'
test_expect_success 'MLFLOW_RUN_ID continues a run, MLFLOW_TAGS is for a new one' '
    rules "$get" "$create" "$batch" "$update" && MLFLOW_RUN_ID=ab "$run" mlflow logs 1 2>err && asked 1 >out &&
    grep -F "{\"run_id\":\"ab\",\"status\":\"RUNNING\"}" out && asked 2 >out && grep -F "\"run_id\":\"ab\"" out &&
    rules "$get" "$create" "$batch" "$update" && MLFLOW_TAGS="{\"team\": \"x\", \"try\": 2}" "$run" mlflow logs 1 2>err &&
    asked 2 >out && grep -F "\"tags\":[{\"key\":\"team\",\"value\":\"x\"},{\"key\":\"try\",\"value\":\"2\"}]" out &&
    test_exit 1 env MLFLOW_TAGS=x "$run" mlflow logs 1 2>err && grep "MLFLOW_TAGS is not a JSON object" err'
test_expect_success 'a token, or a name with a password; neither is shown' '
    rules "$get" "$create" "$batch" "$update" && MLFLOW_TRACKING_TOKEN=SECRET "$run" mlflow logs 1 2>err &&
    grep -x "Authorization: Bearer SECRET." requests/4 && ! grep SECRET err &&
    rules "* status=401 file=none" && MLFLOW_TRACKING_USERNAME=me MLFLOW_TRACKING_PASSWORD=SECRET "$run" mlflow denied 1 2>err &&
    grep -x "Authorization: Basic bWU6U0VDUkVU." requests/1 && ! grep -r "SECRET\|bWU6" err denied && grep "answered 401" err'
test_expect_success 'without a server, a run ends well, with a warning, and keeps what it could not send' '
    MLFLOW_TRACKING_URI=http://127.0.0.1:1 "$run" mlflow away 2 2>err && cat err &&
    test "$(wc -l <err)" = 4 && grep "what is logged is kept in .* sent later, by this run or by the next one in its folder" err &&
    test "$(ls away/project/mlflow-*.unsent | wc -l)" = 1'
test_expect_success 'the next run sends it, after its own' '
    rules "$get" "$create" "$batch" "$update" && "$run" mlflow away 3 2>err && cat err && requests_are 8 &&
    for n in 4 5 6 7; do asked $n; test $n = 4 || echo; done | no_times >got && diff expected got &&
    test -z "$(ls away/project)"'
test_expect_success 'a server that accepts connections, but does not answer: one request, one warning, and the end is kept, too' '
    rules "* delay=600000" && "$run" mlflow silent 2 2>err && cat err && requests_are 1 && test "$(grep -c "WARNING" err)" = 4 &&
    test "$(grep -vc "takes numbers only" err)" = 1 && grep "what is logged is kept in" err && grep "^e[0-9]*$" silent/project/mlflow-*.unsent &&
    test "$(grep -c "train/loss" silent/project/mlflow-*.unsent)" = 2 &&
    rules "$get" "$create" "$batch" "$update" && "$run" mlflow silent 3 2>err && cat err && requests_are 8 &&
    for n in 4 5 6 7; do asked $n; test $n = 4 || echo; done | no_times >got && diff expected got && test -z "$(ls silent/project)"'
test_expect_success 'a server that falls silent at the end' '
    rules "$get" "$create" "$batch" "* delay=600000" && "$run" mlflow late 2 2>err && cat err && requests_are 4 &&
    grep "is what was not sent; the next run in this folder sends it" err && ! grep "lost" err && grep "^e[0-9]*$" late/project/mlflow-*.unsent &&
    rules "$get" "$create" "$batch" "$update" && "$run" mlflow late 1 2>err && cat err && cat requests/* >all &&
    ! grep FAILED all && test -z "$(ls late/project)" && test "$(grep -c FINISHED all)" = 2'
test_expect_success 'a run that is killed while the server takes its first values is not created again' '
    rules "$get" "$create" "* delay=600000" && { "$run" mlflow once 2 2>err & } && process=$! && wait_for test -s requests/3 &&
    grep "^r.*\"run_id\":\"0f\"" once/project/mlflow-*.unsent && kill -KILL $process'
test_expect_success 'of a run that was killed, the end is a failure' '
    mkdir -p killed/project && printf "%s\n" "r{\"start_time\":5,\"experiment\":\"e\",\"run_name\":\"n\",\"run_id\":\"cd\",\"tags\":[]}" \
        "m{\"key\":\"k\",\"value\":1,\"timestamp\":6,\"step\":7}" >killed/project/mlflow-5-1.unsent &&
    printf "m{\"key\":\"half" >>killed/project/mlflow-5-1.unsent &&
    rules "$get" "$create" "$batch" "$update" && "$run" mlflow killed 1 2>err && cat err && asked 5 >out &&
    grep -F "{\"run_id\":\"cd\",\"metrics\":[{\"key\":\"k\",\"value\":1,\"timestamp\":6,\"step\":7}],\"params\":[]}" out &&
    asked 6 >out && grep -F "{\"run_id\":\"cd\",\"status\":\"FAILED\"}" out && test -z "$(ls killed/project)"'
test_expect_success 'what the server refuses is left out, with a warning' '
    rules "$get" "$create" "$api/runs/log-batch status=400 file=changed" "$update" && "$run" mlflow logs 1 2>err &&
    grep "some values are left out: .*Changing param values is not allowed" err && requests_are 4 && asked 4 >out && grep FINISHED out'
test_expect_success 'what it only puts off is kept: a server that is busy, or lets no one in' '
    for status in 401 403 408 429 503; do
        rules "$get" "$create" "$api/runs/log-batch status=$status file=none" "$update" && "$run" mlflow busy$status 1 2>err &&
        grep "answered $status" err && ! grep "left out: .*answered" err && grep "train/loss" busy$status/project/mlflow-*.unsent &&
        grep "\"run_id\":\"0f\"" busy$status/project/mlflow-*.unsent || return 1
    done'
test_expect_success 'at most 1000 metrics are in a request' '
    rules "$get" "$create" "$batch" "$update" && "$run" mlflow logs 2500 2>err &&
    cat requests/* | tr , "\n" | grep -c "\"step\"" >count && test "$(cat count)" = 2500 &&
    for n in requests/*; do test "$(tr , "\n" <"$n" | grep -c "\"step\"")" -le 1000 || return 1; done'
test_expect_success 'only servers; and "all" leaves it out without one' '
    test_exit 1 env MLFLOW_TRACKING_URI=file:/tmp/x "$run" mlflow logs 1 2>err && grep "must be the http:// or https:// URL" err &&
    env -u MLFLOW_TRACKING_URI "$run" all everything 1 2>err && cat err && ls everything/project/metrics.csv'
test_expect_success 'without the module' '
    test_exit 1 env ACCEL_ENGINE_PATH=/nowhere "$run" mlflow logs 1 2>err && grep "accel_tracker_mlflow.so is not installed" err'

if [ -z "$real" ]; then
    test_skip 'a real server has it all' 'needs MLFLOW_TEST_SERVER=URL'
else
    MLFLOW_TRACKING_URI=$real MLFLOW_EXPERIMENT_NAME=accel-test-$$
    export MLFLOW_EXPERIMENT_NAME
    cat >read.py <<'END'
import json, os, sys, urllib.request

def ask(path, body):
    url = os.environ["MLFLOW_TRACKING_URI"].rstrip("/") + "/api/2.0/mlflow/" + path
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))

experiment = ask("experiments/get-by-name?experiment_name=" + os.environ["MLFLOW_EXPERIMENT_NAME"], None)
runs = ask("runs/search", {"experiment_ids": [experiment["experiment"]["experiment_id"]]})["runs"]
for run in runs:
    history = ask(f"metrics/get-history?run_id={run['info']['run_id']}&metric_key=train/loss", None)["metrics"]
    print(run["info"]["status"], sorted((p["key"], p["value"]) for p in run["data"]["params"]),
          [(int(m["step"]), m["value"]) for m in history])
END
    test_expect_success 'a real server has it all' '
        MLFLOW_TRACKING_URI=http://127.0.0.1:1 "$run" mlflow real 2 2>err && "$run" mlflow real 3 2>err && cat err &&
        python3 read.py >unsorted && sort unsorted >out && cat out && cat >wanted <<END && diff wanted out
FINISHED [('\''lr'\'', '\''0.001'\''), ('\''model'\'', '\''mlp'\'')] [(0, 1.0), (1, 0.5), (2, 0.3333333333333333)]
FINISHED [('\''lr'\'', '\''0.001'\''), ('\''model'\'', '\''mlp'\'')] [(0, 1.0), (1, 0.5)]
END'
fi
test_done
