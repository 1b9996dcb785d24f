#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Several simulated hosts on one Linux machine, for tests of launches across hosts.
usage='usage: hosts.sh up N                 start host1 ... hostN; hosts that run already stay as they are
       hosts.sh exec HOST CMD...     run a command there, in the current folder
       hosts.sh ip HOST              print its address
       hosts.sh cut HOST             unplug its network cable
       hosts.sh heal HOST            plug it in again, at full speed
       hosts.sh slow HOST DELAY LOSS both ways, as in 100ms 5%; exit status 77 if the kernel has no netem
       hosts.sh off HOST             power it off: first the link, then every process
       hosts.sh down                 end everything
HOSTS_DIR    folder of this set of hosts, which "up" creates and "down" removes
HOSTS_OWNER  the hosts end with this process, even if it is killed (the caller of "up")
Exit status: 77 if this machine does not permit it.'
# A host has its own network, host name, processes, System V IPC, /run and /dev/shm; all other files are shared, as with a
# network file system.  Each host runs an sshd, which knows the hosts' common key.  All hosts are inside one more network and
# process namespace, the lab, which holds the bridge: when its process 1 ends, the kernel removes all of it.
set -u
PATH=$PATH:/usr/sbin:/sbin
net=10.91.0
die () {
    echo "hosts.sh: $1" >&2
    exit "${2:-1}"
}

# born PID: when it started, so that a number that is used again is not taken for the same process; nothing for a zombie.
born () {
    { sed 's/.*) //' "/proc/$1/stat" | awk '$1 != "Z" { print $20 }'; } 2>/dev/null
}
note () {
    echo "$1 $(born "$1")" >"$2.new" && mv "$2.new" "$2"
}

# alive FILE: whether the process that note() wrote there still runs; its number is then in $pid.
alive () {
    pid='' start=''
    { read -r pid start <"$1"; } 2>/dev/null && [ -n "$start" ] && [ "$(born "$pid")" = "$start" ]
}
ended () {
    ! alive "$1"
}
await () {
    tries=3000
    until "$@"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.02
    done
}

in_lab () {
    alive "$dir/lab" || die "not up: $dir"
    nsenter -t "$pid" -n -- "$@"
}
find_host () {
    alive "$dir/$1/pid" || die "no such host is up: $1"
}
on_link () {
    find_host "$1"
    shift
    nsenter -t "$pid" -n -- "$@"
}
listens () {
    grep -q ':0016 .* 0A ' "/proc/$1/net/tcp"
}

check () {
    [ "$(id -u)" = 0 ] || die 'needs root: it makes namespaces and network links' 77
    for tool in ip unshare nsenter setpriv setsid awk ssh ssh-keygen sshd; do
        command -v "$tool" >/dev/null || die "$tool is missing" 77
    done
    unshare -n -u -i -m -p -f ip link add probe type bridge 2>/dev/null ||
        die 'no right to make namespaces and network links (CAP_SYS_ADMIN, CAP_NET_ADMIN)' 77
}

# Process 1 of the lab.  /proc is still that of the machine, here and in host(): it has the numbers that others see.
lab () {
    ip link add name switch type bridge && ip link set switch up && ip link set lo up || exit 1
    read -r self _ </proc/self/stat
    note "$self" "$dir/lab"
    while [ "$(born "$1")" = "$2" ]; do
        sleep 0.2 &
        wait $! # and orphans
    done
}

# Process 1 of a host.
host () {
    read -r self _ </proc/self/stat
    hostname "$1" && ip link set lo up && mount -t tmpfs -o mode=755 run /run && mkdir /run/sshd || exit 1
    mount -t tmpfs -o mode=1777 shm /dev/shm
    echo 'root:*:1::::::' >/run/shadow # a locked account could not log in
    echo 'root:x:0:0:root:/run/home:/bin/sh' >/run/passwd # without the start-up files of this machine's root
    grep -v '^root:' /etc/passwd >>/run/passwd
    mkdir /run/home
    mount --bind /run/shadow /etc/shadow && mount --bind /run/passwd /etc/passwd && mount --bind "$dir/hosts" /etc/hosts || exit 1
    [ ! -e /etc/ssh/ssh_config ] || mount --bind "$dir/ssh_config" /etc/ssh/ssh_config || exit 1
    mount -t proc proc /proc && "$(command -v sshd)" -f "$dir/sshd_config" -h "$dir/$1/key" -E "$dir/$1/sshd.log" || exit 1
    echo "$self" >"$dir/$1/ready"
    while :; do
        sleep 1000 &
        wait $!
    done
}

create () {
    mkdir -m 700 -p "$dir" && dir=$(cd "$dir" && pwd) || die "cannot create the folder $dir"
    [ -z "$(ls "$dir")" ] || die "not an empty folder: $dir"
    owner=${HOSTS_OWNER:-$PPID}
    setsid unshare -n -p -f sh "$0" _lab "$dir" "$owner" "$(born "$owner")" >"$dir/log" 2>&1 </dev/null &
    await alive "$dir/lab" || die "cannot start: $(cat "$dir/log")"
    ssh-keygen -q -t ed25519 -N '' -C hosts -f "$dir/key" && cp "$dir/key.pub" "$dir/authorized_keys" || die 'no key'
    printf '%s\n' "AuthorizedKeysFile \"$dir/authorized_keys\"" 'StrictModes no' 'UseDNS no' 'PrintMotd no' \
        'PrintLastLog no' 'MaxStartups 200' 'PidFile none' 'PermitRootLogin prohibit-password' >"$dir/sshd_config"
    printf '%s\n' 'Host host*' 'User root' "IdentityFile \"$dir/key\"" 'IdentitiesOnly yes' \
        "UserKnownHostsFile \"$dir/known_hosts\"" 'GlobalKnownHostsFile /dev/null' >"$dir/ssh_config"
    echo '127.0.0.1 localhost' >"$dir/hosts"
    : >"$dir/known_hosts"
}

start () {
    name=host$1 me=$dir/host$1
    ! alive "$me/pid" || return 0
    mkdir -p "$me"
    rm -f "$me/ready"
    [ -f "$me/key" ] || ssh-keygen -q -t ed25519 -N '' -C "$name" -f "$me/key" || die 'no key'
    alive "$dir/lab" || die "not up: $dir"
    setsid nsenter -t "$pid" -n -p unshare -n -u -i -m -p -f --kill-child sh "$0" _host "$dir" "$name" \
        >"$me/log" 2>&1 </dev/null &
    await test -s "$me/ready" || die "$name does not start: $(cat "$me/log")"
    note "$(cat "$me/ready")" "$me/pid"
    in_lab ip link del "$name" 2>/dev/null
    find_host "$name"
    outer=$pid
    in_lab ip link add "$name" type veth peer name eth0 address "$(printf '02:00:00:00:00:%02x' "$1")" netns "$outer" &&
        on_link "$name" ip addr add "$net.$1/24" dev eth0 && on_link "$name" ip link set eth0 up &&
        in_lab ip link set "$name" master switch up || die "cannot connect $name"
    await listens "$outer" || die "no sshd on $name: $(cat "$me/log" "$me/sshd.log")"
    grep -q "^$name," "$dir/known_hosts" || echo "$name,$net.$1 $(cat "$me/key.pub")" >>"$dir/known_hosts"
}

up () {
    case $1 in [1-9] | [1-9][0-9]) ;; *) die "up needs a number from 1 to 99" 2 ;; esac
    check
    alive "$dir/lab" || create
    for i in $(seq "$1"); do
        grep -q " host$i\$" "$dir/hosts" || echo "$net.$i host$i" >>"$dir/hosts"
    done
    for i in $(seq "$1"); do
        start "$i"
    done
}

down () {
    if alive "$dir/lab"; then
        kill -9 "$pid"
        await ended "$dir/lab"
    fi
    [ ! -f "$dir/sshd_config" ] || rm -rf "$dir"
}

slow () {
    find_host "$1"
    # One packet a frame, so that a loss is that of a packet.
    in_lab ip link set "$1" gso_max_segs 1
    on_link "$1" ip link set eth0 gso_max_segs 1
    in_lab tc qdisc replace dev "$1" root netem limit 10000 delay "$2" loss "$3" 2>/dev/null || die 'the kernel has no netem' 77
    on_link "$1" tc qdisc replace dev eth0 root netem limit 10000 delay "$2" loss "$3"
}
heal () {
    find_host "$1"
    { in_lab tc qdisc del dev "$1" root; on_link "$1" tc qdisc del dev eth0 root; } 2>/dev/null
    in_lab ip link set "$1" up
}

off () {
    find_host "$1"
    host=$pid
    in_lab ip link set "$1" down
    kill -9 "$host"
    await ended "$dir/$1/pid"
    in_lab ip link del "$1" 2>/dev/null || :
}

verb=${1:-help}
[ $# -eq 0 ] || shift
dir=${HOSTS_DIR:-}
case $verb in _lab | _host) dir=$1 && shift ;; esac
[ -n "$dir" ] || die "set HOSTS_DIR to a folder for the hosts' files" 2
[ ! -d "$dir" ] || dir=$(cd "$dir" && pwd)
case $verb:$# in
    up:1) up "$1" ;;
    _lab:*) lab "$1" "${2:-}" ;;
    _host:1) host "$1" ;;
    exec:0 | exec:1) die "$usage" 2 ;;
    exec:*)
        find_host "$1"
        shift
        # shellcheck disable=SC2016 # the shell inside expands them
        exec nsenter -t "$pid" -m -u -i -n -p -- setpriv --pdeathsig TERM sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
        ;;
    ip:1) sed -n "s/ $1\$//p" "$dir/hosts" ;;
    cut:1) find_host "$1" && in_lab ip link set "$1" down ;;
    heal:1) heal "$1" ;;
    slow:3) slow "$@" ;;
    off:1) off "$1" ;;
    down:0) down ;;
    *) die "$usage" 2 ;;
esac
