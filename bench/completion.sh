#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a Tab takes in fish and in zsh, inside a shell that has read the completion: medians of 101.
#
#   completion.sh ACCELERATE COMPLETIONS
#
# For bash see bench_launch.
set -eu
scratch=$(mktemp -d "${TMPDIR:-/tmp}/accel-bench.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
cp "$1" "$scratch/accelerate"
cp "$2/accelerate.fish" "$scratch"
cp "$2/accelerate.zsh" "$scratch/_accelerate"
cd "$scratch"
PATH=$scratch:$PATH HOME=$scratch
export PATH HOME

cat >tab.fish <<'EOT'
source accelerate.fish
for i in (seq 101)
    set -l begin (date +%s%N)
    complete -C $argv[1] >/dev/null
    math (date +%s%N) - $begin
end
EOT

# A terminal with an interactive zsh in it; its Tab key tells the time.
cat >tab.zsh <<'EOT'
zmodload zsh/zpty
zpty -b shell "TERM=dumb PROMPT= zsh -f -i"
zpty -w shell "source ./inside.zsh"
zpty -r shell reply '*ready>>*'
repeat 101; do
    zpty -wn shell "$1"$'\t'
    zpty -r shell reply '*>>*'
    print -r -- ${${reply%>>*}##*<<}
done
zpty -d shell
EOT
cat >inside.zsh <<'EOT'
zmodload zsh/datetime
fpath=($PWD $fpath)
autoload -Uz compinit && compinit -u -D
tab () {
    local begin=$EPOCHREALTIME
    zle offer
    local end=$EPOCHREALTIME
    BUFFER=
    printf '<<%.0f>>\n' $(( (end - begin) * 1e9 ))
}
zle -C offer complete-word _main_complete
zle -N tab
bindkey '^I' tab
print '<<''ready>>'
EOT

# the clock of fish is date(1), of which one run is in the time
for shell in fish zsh; do
    if ! command -v "$shell" >/dev/null; then
        echo "$shell: not here"
        continue
    fi
    for line in 'accelerate launch --cpu --mixed' 'accelerate launch --gpu_ids '; do
        case $shell in
        fish) timeout 60 fish --no-config tab.fish "$line" ;;
        zsh) timeout 60 zsh -f tab.zsh "$line" ;;
        esac | sort -n | sed -n 51p |
            awk -v shell="$shell" -v line="$line" '{ printf "%-5s %-32s %6.2f ms\n", shell, line, $1 / 1e6 }'
    done
done
