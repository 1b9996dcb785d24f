#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# estimate-memory of a model of 138 GB in 30 files, of a hub on this machine: the median time of 11 runs, and the peak memory.
#
#   estimate.sh ACCELERATE SERVER [PYTHON]
#
# SERVER is tests/http/server of a build.  PYTHON: one that has accelerate and transformers.  Their command asks the same
# hub, has config.json in its cache after a run that does not count, and must print the same table; the median of 5 runs.
set -eu
accelerate=$(realpath "$1") server=$(realpath "$2") python=${3-}
here=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/accel-bench.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
python3 - "$here/tests/http" <<'EOT'
import sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import make_hub
config, tensors = make_hub.llama(80, 8192, 28672, 32000, 8, 64)
make_hub.write_model("hub", "org/large", config, tensors, shards=30)
EOT
printf '%s\n' '/org/large/resolve/main/config.json header=ETag:"1" header=X-Repo-Commit:0123456789012345678901234567890123456789' >hub/.rules
"$server" hub $$ &
while ! [ -e hub/.port ]; do sleep 0.05; done
HF_ENDPOINT=http://127.0.0.1:$(cat hub/.port) HF_HOME=$scratch/home HOME=$scratch
export HF_ENDPOINT HF_HOME HOME

# measure RUNS COMMAND...: the median of the milliseconds, and the largest memory
measure () {
    runs=$1 && shift
    for _ in $(seq "$runs"); do
        python3 -c '
import resource, subprocess, sys, time
begin = time.monotonic()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(round(1000 * (time.monotonic() - begin)), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' "$@"
    done | sort -n | awk -v middle=$(((runs + 1) / 2)) '{ ms[NR] = $1; if ($2 > most) most = $2 }
        END { printf "%d ms, %.1f MiB\n", ms[middle], most / 1024 }'
}
echo "accelerate estimate-memory org/large: $(measure 11 "$accelerate" estimate-memory org/large)"
if [ -n "$python" ]; then
    set -- "$python" -m accelerate.commands.accelerate_cli estimate-memory org/large
    "$@" 2>/dev/null | grep -v '^Loading' >theirs
    "$accelerate" estimate-memory org/large | diff - theirs
    echo "Hugging Face Accelerate, the same table: $(measure 5 "$@")"
fi
