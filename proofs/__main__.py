"""`python -m proofs`."""

import sys

if __name__ == "__main__":
    try:
        from proofs.cli import main

        status = main()
    except KeyboardInterrupt:  # before `main` can answer it: while modules are imported
        print("bpf-devirt: interrupted", file=sys.stderr)
        status = 130
    sys.exit(status)
