#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# dump.sh TOP OUT [ABI]: write the ABI that the headers in TOP/include promise to OUT, in the XML of abidw(1).
#
# It is that of a library which has nothing but the declared functions, without contents: so the dump has no type of
# ours that is not public, and does not depend on options of the build, the compiler or the folder.
set -u
top=$1 out=$2 abi=${3-}
case $top in /*) ;; *) top=$PWD/$top ;; esac
case $out in /*) ;; *) out=$PWD/$out ;; esac
folder=$(mktemp -d "${TMPDIR:-/tmp}/accel-abi.XXXXXX") || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
{
    echo '#include <accel/accel.h>'
    cat "$top"/include/accel/*.h | awk '
        /^ACCEL_API/ { text = ""; open = 1 }
        open { text = text $0 "\n" }
        open && /;/ {
            open = 0
            sub (/ ACCEL_PRINTF \([^;]*\)/, "", text)
            sub (/;[^;]*$/, "\n{ __builtin_trap (); }", text)
            print text
        }'
} >abi.c
${CC:-cc} -std=c11 -g -O0 -fPIC -shared -I"$top/include" abi.c -o abi.so -Wl,-soname,libaccel.so \
    -Wl,--version-script="$top/src/lib/libaccel.map" || exit 1
abidw --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed --no-parameter-names --type-id-style hash \
    abi.so >abi.xml || exit 1
# At the end, because abidiff knows the file by its beginning.
[ ! "$abi" ] || echo "<!-- ACCEL_ABI $abi; written by make update-abi -->" >>abi.xml
mv abi.xml "$out" || exit 1
