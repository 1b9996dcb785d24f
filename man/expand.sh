#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# expand.sh ACCELERATE <PAGE.in >PAGE: each line @FORM@ is replaced by what `ACCELERATE --emit=FORM` prints, each line
# @<FILE@ by that file of the source tree, as it is, for mdoc.
set -eu
top=$(dirname "$0")/..
while IFS= read -r line; do
    case $line in
    @\<*@)
        file=${line#@<}
        sed 's/\\/\\e/g; s/-/\\-/g; s/^[.'"'"']/\\\&&/' "$top/${file%@}"
        ;;
    @*@)
        form=${line#@}
        "$1" "--emit=${form%@}"
        ;;
    *)
        printf '%s\n' "$line"
        ;;
    esac
done
