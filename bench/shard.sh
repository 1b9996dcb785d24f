#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sharded training: libaccel in all ways, in shared memory and with engine mpi, and PyTorch beside it; then the memory.
#
#   shard.sh BUILD_FOLDER [PYTHON]
#
# The environment has SIZES and MEMORY_SIZE, numbers of parameters ("": memory is not measured), STEPS and ROUNDS, all
# in turns.  Without a PYTHON that has torch, or without MPI, these are left out.
set -eu
build=$(cd "$1" && pwd) python=${2-} here=$(dirname "$0") steps=${STEPS:-50}
bench=$build/bench/bench_shard
module=$build/src/engines/mpi/.libs/accel_engine_mpi.so

# launch RANKS COMMAND...
launch () {
    ranks=$1
    shift
    "$build/accelerate" launch --quiet --cpu --num_processes "$ranks" --num_cpu_threads_per_process 1 "$@"
}
# with_mpi RANKS COMMAND...: each rank as on a host of its own
with_mpi () {
    ranks=$1
    shift
    # shellcheck disable=SC2016 # the ranks' shells expand it
    ACCEL_ENGINE=mpi ACCEL_ENGINE_PATH=${module%/*} mpirun --allow-run-as-root --oversubscribe -n "$ranks" sh -c '
        RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 exec "$@"' - "$@"
}

has_mpi () {
    [ -e "$module" ] && command -v mpirun >/dev/null
}

for _ in $(seq "${ROUNDS:-1}"); do
    for ranks in 2 4; do
        for size in ${SIZES:-100000 10000000}; do
            launch $ranks "$bench" steps "$size" "$steps"
            if has_mpi; then
                table=$(with_mpi $ranks "$bench" steps "$size" "$steps")
                echo "$table" | sed 's/^/engine mpi, /'
            fi
            if [ -n "$python" ] && "$python" -c 'import torch' 2>/dev/null; then
                launch $ranks "$python" "$here/shard_peer.py" "$size" "$steps"
            fi
        done
    done
done
size=${MEMORY_SIZE-50000000}
[ -n "$size" ] || exit 0
for ranks in 1 2 4; do
    for way in none optimizer gradients parameters shared shared-gradients shared-parameters files hybrid; do
        case $ranks:$way in
        1:none | 1:files | 2:[!h]* | 4:*) launch $ranks "$bench" memory "$size" $way ;;
        esac
    done
done
# Stages 1 to 3 with the other engine, and where 2 of 4 processes divide matrices.
for way in optimizer gradients parameters; do
    if has_mpi; then
        line=$(with_mpi 2 "$bench" memory "$size" $way)
        echo "engine mpi, $line"
    fi
    launch 4 "$bench" memory "$size" $way 2
done
