#!/bin/sh
# Makes the dumps beside this file again: needs root, bpf(2), clang with the BPF target and bpftool.
# Map ids, tags and call immediates differ from kernel to kernel and from boot to boot.
# Loads and reads back only; nothing is attached, and everything is unloaded at the end.
# These were made on Linux 6.18 (x86-64, JIT always on) by clang 19 and bpftool 7.1.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
restrict=$(sysctl -n kernel.kptr_restrict)
finish() {
    sysctl -qw kernel.kptr_restrict="$restrict"
    umount "$work/fs" && rm -r "$work"
}
mkdir "$work/fs"
mount -t bpf bpf "$work/fs"
trap finish EXIT
sysctl -qw kernel.kptr_restrict=0
"${CLANG:-clang}" -target bpf -g -O2 -mcpu=v3 -fdebug-compilation-dir=. -I/usr/include/x86_64-linux-gnu \
    -c walk.bpf.c -o "$work/walk.o"
bpftool prog loadall "$work/walk.o" "$work/fs/p"
for prog in walk jump; do
    at="$work/fs/p/$prog"
    bpftool prog dump xlated pinned "$at" >$prog.txt
    bpftool prog dump xlated pinned "$at" opcodes >$prog.opcodes.txt
    bpftool prog dump xlated pinned "$at" linum >$prog.linum.txt
    bpftool -j prog dump xlated pinned "$at" linum >$prog.json
    bpftool -jp prog dump xlated pinned "$at" opcodes >$prog.opcodes.json
done
bpftool -j map show >maps.json
# As somebody sees it who may not read kernel addresses.
sysctl -qw kernel.kptr_restrict=2
bpftool prog dump xlated pinned "$work/fs/p/walk" >hidden.txt
bpftool prog dump xlated pinned "$work/fs/p/walk" opcodes >hidden.opcodes.txt
bpftool -j prog dump xlated pinned "$work/fs/p/walk" >hidden.json
sysctl -qw kernel.kptr_restrict=0
# Two programs of one name: one dump with a header for each.
bpftool prog loadall "$work/walk.o" "$work/fs/q"
bpftool prog dump xlated name jump >both.txt
bpftool -j prog dump xlated name jump opcodes >both.json
