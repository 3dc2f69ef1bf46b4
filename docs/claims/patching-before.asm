.map numbers array 4 8 16
*(u32 *)(r10 -4) = 0
r6 = *(u32 *)(r1 +0)
r0 = 0
if r6 == 0x0 goto out
r1 = map[numbers]
r2 = r10
r2 += -4
call bpf_map_lookup_elem
out:
exit
