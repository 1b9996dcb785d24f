# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Sourced by tests of engine mpi: mpirun, and programs as on several hosts; ends a test where that is not possible.
#
#   limited COMMAND...              ends after $limit seconds
#   under_mpirun N COMMAND...       N ranks with engine mpi
#   ./hosts EACH COMMAND...         a rank as on a host with that many
#   ./layout "2 1 1" COMMAND...     a rank as on hosts with as many as these
#   ./placed "a b a b" COMMAND...   a rank as on the host named for it
module=$builddir/src/engines/mpi/.libs/accel_engine_mpi.so
mpirun=$(sed -n 's/^MPIRUN = //p' "$builddir/Makefile")

if [ ! -f "$module" ]; then
    skip_rest 'not built: no MPI, or no shared libraries (see the end of configure)'
elif ! command -v "$mpirun" >/dev/null; then
    skip_rest 'there is no mpirun'
elif is_thread_sanitized; then
    skip_rest 'MPI is not built with the thread sanitizer'
fi
# MPI leaves memory behind.  Where that is looked for, its libraries stay, so that mpi.supp can name them.
leaks=
if is_sanitized; then
    echo "int dlclose (void *library) { (void) library; return 0; }" >keep.c && $CC -shared -fPIC -o keep.so keep.c || exit
    leaks="env LD_PRELOAD=$PWD/keep.so ASAN_OPTIONS=verify_asan_link_order=0:fast_unwind_on_malloc=0"
    leaks="$leaks LSAN_OPTIONS=suppressions=$srcdir/tests/engines/mpi.supp:print_suppressions=0"
    ASAN_OPTIONS=detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
    export ASAN_OPTIONS
fi
umask 022
mkdir engines && cp "$module" engines
ACCEL_ENGINE_PATH=$scratch/engines
allow_mpirun
OMPI_MCA_btl_vader_single_copy_mechanism=none
# What it takes on one machine anyway; to look at the others costs each rank a tenth of its start.
OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader
HWLOC_COMPONENTS=-gl # or mpirun waits for whatever has the port of an X server
export ACCEL_ENGINE_PATH OMPI_MCA_btl_vader_single_copy_mechanism OMPI_MCA_pml OMPI_MCA_btl HWLOC_COMPONENTS
# An mpirun that hangs may ignore SIGTERM.
limit=$((patience / 3))
limited () {
    timeout -k 10 $limit "$@"
}
if ! limited "$mpirun" -n 2 true >out 2>&1; then
    skip_rest "$mpirun cannot start processes here: $(head -n 1 out)"
fi

# under_mpirun N COMMAND...: with engine mpi
under_mpirun () {
    ranks=$1
    shift
    limited env ACCEL_ENGINE=mpi "$mpirun" -n "$ranks" "$@"
}

# As on hosts with EACH ranks: hosts EACH COMMAND...
cat >hosts <<'END'
#!/bin/sh
each=$1 RANK=${OMPI_COMM_WORLD_RANK-$PMI_RANK} WORLD_SIZE=${OMPI_COMM_WORLD_SIZE-$PMI_SIZE}
shift
LOCAL_RANK=$((RANK % each)) LOCAL_WORLD_SIZE=$each
export RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
exec "$@"
END
# As on hosts with as many ranks as the first argument lists: layout "2 1 1" COMMAND...
cat >layout <<'END'
#!/bin/sh
sizes=$1 RANK=${OMPI_COMM_WORLD_RANK-$PMI_RANK} WORLD_SIZE=${OMPI_COMM_WORLD_SIZE-$PMI_SIZE} LOCAL_RANK=$RANK
shift
for LOCAL_WORLD_SIZE in $sizes; do
    [ "$LOCAL_RANK" -ge "$LOCAL_WORLD_SIZE" ] || break
    LOCAL_RANK=$((LOCAL_RANK - LOCAL_WORLD_SIZE))
done
export RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
exec "$@"
END
# As on the host that the first argument names for each rank: placed "a b a b" COMMAND...
cat >placed <<'END'
#!/bin/sh
places=$1 RANK=${OMPI_COMM_WORLD_RANK-$PMI_RANK} WORLD_SIZE=${OMPI_COMM_WORLD_SIZE-$PMI_SIZE}
LOCAL_RANK=0 LOCAL_WORLD_SIZE=0 rank=0
shift
here=$(echo "$places" | cut -d " " -f $((RANK + 1)))
for place in $places; do
    if [ "$place" = "$here" ]; then
        LOCAL_WORLD_SIZE=$((LOCAL_WORLD_SIZE + 1))
        [ $rank -ge "$RANK" ] || LOCAL_RANK=$((LOCAL_RANK + 1))
    fi
    rank=$((rank + 1))
done
export RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
exec "$@"
END
chmod +x hosts layout placed
port=$(free_port)
# is_open_mpi: or another MPI
is_open_mpi () {
    grep -q "Open MPI" version
}
limited "$mpirun" --version >version 2>&1 || :
