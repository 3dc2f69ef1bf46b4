"""All seeded faults, family by family."""

from proofs.mutants import DISPATCH_MUTANTS
from proofs.mutants_program import PROGRAM_MUTANTS

MUTANTS = (*DISPATCH_MUTANTS, *PROGRAM_MUTANTS)
