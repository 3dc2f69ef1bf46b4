# As compilers wrote objects at first: labels without type or size, local ones as targets of jumps.
	.section	socket,"ax",@progbits
	.globl	filter
filter:
	r1 = flows ll
	r2 = 0
	*(u32 *)(r10 - 4) = r2
	r2 = r10
	r2 += -4
	call 1
	if r0 == 0 goto LBB0_2
	r0 = 1
	exit
LBB0_2:
	r0 = 0
	exit
	.globl	second
second:
	r0 = 2
	exit
	.section	maps,"aw",@progbits
	.globl	flows
flows:
	.long	1, 4, 8, 32, 0
	.section	license,"aw",@progbits
	.globl	_license
_license:
	.asciz	"GPL"
