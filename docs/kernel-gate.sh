#!/bin/sh
# A gate for a kernel tree: fails when a claim that was proved is not proved any more, or a new one is refuted.
#
#   kernel-gate.sh TREE AGAINST [BASELINE [SARIF]]
#
# TREE      the patched kernel tree
# AGAINST   the tree before the patch, a release file written by `extract`, or a release in the data (6.12)
# BASELINE  refutations that are known (TOML); one that is not there is none (default: bpf-devirt.toml)
# SARIF     where the report goes (default: bpf-devirt.sarif)
#
# Exit status: 0 nothing got worse; 1 something did; 2 bad input; 3 something new is open. PYTHON names the interpreter.
set -eu

if [ $# -lt 2 ] || [ $# -gt 4 ]; then
    echo "usage: $0 TREE AGAINST [BASELINE [SARIF]]" >&2
    exit 2
fi
tree=$1 against=$2 baseline=${3:-bpf-devirt.toml} sarif=${4:-bpf-devirt.sarif}
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -d "$against" ]; then
    "$python" -m proofs extract "$against" -o "$work/base.json"
    against=$work/base.json
fi
[ -f "$baseline" ] || : > "$work/none.toml"
[ -f "$baseline" ] || baseline=$work/none.toml
"$python" -m proofs check --tree "$tree" --against "$against" --baseline "$baseline" --format sarif -o "$sarif"
