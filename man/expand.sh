#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# expand.sh ACCELERATE <PAGE.in >PAGE: each line @FORM@ is replaced by what `ACCELERATE --emit=FORM` prints.
set -eu
while IFS= read -r line; do
    case $line in
    @*@)
        form=${line#@}
        "$1" "--emit=${form%@}"
        ;;
    *)
        printf '%s\n' "$line"
        ;;
    esac
done
