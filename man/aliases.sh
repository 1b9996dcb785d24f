#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# aliases.sh HEADERS PAGE.in...: a line "NAME PAGE" for each name in a page's NAME section that is not its file's name.
# `make install` makes a page of that name, which includes the other, so that man(1) finds it.  The functions that macros
# call, whose names end in _at and _sized, are described with the macros.
set -e
headers=$1
shift
called=$(cat "$headers"/*.h | sed -n 's/^\(.*[ *]\)\{0,1\}\(accel_[a-z0-9_]*_at\) (const char \*file.*/\2/p
    s/^\(accel_[a-z0-9_]*_sized\) (size_t .*/\1/p' | tr '\n' ' ')
for page; do
    name=$(basename "$page" .in)
    sed -n '/^\.Sh NAME$/,/^\.Nd /s/^\.Nm \([a-z0-9_]*\).*/\1/p' "$page" | while read -r alias; do
        [ "$alias.3" = "$name" ] || echo "$alias $name"
        for suffix in at sized; do
            case " $called" in *" ${alias}_$suffix "*) echo "${alias}_$suffix $name" ;; esac
        done
    done
done
