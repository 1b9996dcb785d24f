#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Which mpirun there is, and whose, since the two families spell their options differently.
. "${srcdir:-.}/tests/testlib.sh"
printf '#!/bin/sh\n' >rank && chmod +x rank && echo localhost >hosts
mkdir none
sleep=$(command -v sleep)

# mpi NAME: a program of that name, from stdin, which is the only one in the PATH bin.NAME
mpi () {
    mkdir "bin.$1"
    { echo '#!/bin/sh' && cat; } >"bin.$1/${2-mpirun}"
    chmod +x "bin.$1/${2-mpirun}"
}
# plan FOLDER: what would be started
plan () {
    PATH=$PWD/$1 "$accelerate" launch --dry_run --cpu --num_processes 4 --mpirun_hostfile hosts ./rank >plan 2>err
}
open='--hostfile hosts --npernode 4 -n 4 --bind-to socket ./rank'
other='-f hosts -ppn 4 -n 4 ./rank'
# in pieces, and what comes after does not matter
mpi open <<END
printf 'mpirun (Op'
$sleep 0.3
echo 'en MPI) 4.1.4'
END
mpi rte <<'END'
echo "mpirun (OpenRTE) 2.1"
END
mpi intel <<'END'
echo "Intel(R) MPI Library for Linux* OS, Version 2021.5"
END
mpi errors <<'END'
echo "Open MPI" >&2
END
mpi exec mpiexec <<'END'
echo "mpiexec (OpenRTE) 2.1"
END
while IFS='|' read -r folder program words; do
    test_expect_success "$folder: $program $words" '
        plan bin.$folder && cat plan && grep -F -- "bin.$folder/$program $words" plan'
done <<END
open|mpirun|$open
rte|mpirun|$open
intel|mpirun|$other
errors|mpirun|$other
exec|mpiexec|$open
END
test_expect_success 'mpirun comes before mpiexec' '
    cp bin.exec/mpiexec bin.intel && plan bin.intel && grep -F -- "bin.intel/mpirun $other" plan'
test_expect_success 'none of them' '
    test_exit 1 plan none && grep "needs mpirun or mpiexec, but neither is in PATH" err'
mkfifo hang && exec 9<>hang
mpi stays <<'END'
echo $$ >pid
echo "Open MPI"
exec >&-
read -r word <hang
END
test_expect_success 'one that stays after its answer is not waited for, and does not stay' '
    plan bin.stays && grep -F -- "bin.stays/mpirun $open" plan && ! kill -0 "$(cat pid)"'
test_done
