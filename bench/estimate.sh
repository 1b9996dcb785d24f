#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# estimate-memory of a model of 70 GB in 30 files, of a hub on this machine: the median time of 11 runs, and the peak memory.
#
#   estimate.sh ACCELERATE SERVER [PYTHON]
#
# SERVER is tests/http/server of a build.  PYTHON: one that has accelerate and transformers; they build the same model from
# its configuration in their cache, without the hub.
set -eu
accelerate=$1 server=$2 python=${3-}
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
"$server" hub $$ &
while ! [ -e hub/.port ]; do sleep 0.05; done
HF_ENDPOINT=http://127.0.0.1:$(cat hub/.port) HF_HOME=$scratch/home HOME=$scratch
export HF_ENDPOINT HF_HOME HOME

# measure COMMAND...: the median of the milliseconds, and the largest memory
measure () {
    for _ in 1 2 3 4 5 6 7 8 9 10 11; do
        python3 -c '
import resource, subprocess, sys, time
begin = time.monotonic()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(round(1000 * (time.monotonic() - begin)), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' "$@"
    done | sort -n | awk '{ ms[NR] = $1; if ($2 > most) most = $2 } END { printf "%d ms, %.1f MiB\n", ms[6], most / 1024 }'
}
echo "accelerate estimate-memory org/large: $(measure "$accelerate" estimate-memory org/large)"
if [ -n "$python" ]; then
    cat >original.py <<'EOT'
import json
import sys
import torch
from accelerate import init_empty_weights
from accelerate.utils import calculate_maximum_sizes
from transformers import AutoConfig, AutoModel
config = AutoConfig.for_model(**json.load(open(sys.argv[1])))
with init_empty_weights():
    print(calculate_maximum_sizes(AutoModel.from_config(config, dtype=torch.float32)))
EOT
    echo "Accelerate, without the hub: $(measure "$python" original.py hub/org/large/resolve/main/config.json)"
fi
