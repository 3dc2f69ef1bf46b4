"""All seeded faults, family by family."""

from proofs.mutants import DISPATCH_MUTANTS, Mutant
from proofs.mutants_callback import CALLBACK_MUTANTS
from proofs.mutants_inline import INLINE_MUTANTS
from proofs.mutants_program import PROGRAM_MUTANTS, ProgramMutant
from proofs.mutants_rewrite import REWRITE_MUTANTS
from proofs.mutants_whole import WHOLE_MUTANTS

MUTANTS: tuple[Mutant | ProgramMutant, ...] = (
    *DISPATCH_MUTANTS,
    *INLINE_MUTANTS,
    *CALLBACK_MUTANTS,
    *PROGRAM_MUTANTS,
    *WHOLE_MUTANTS,
    *REWRITE_MUTANTS,
)
