; One call that two maps can reach: the verifier poisons the site, and the dispatch stays.
.map numbers array 4 8 16
.map names hash 4 8 16
*(u32 *)(r10 -4) = 0
*(u64 *)(r10 -16) = 0
r0 = *(u32 *)(r1 +0)
r1 = map[numbers]
if r0 == 0x0 goto one
r1 = map[names]
one:
r2 = r10
r2 += -4
r3 = r10
r3 += -16
r4 = 0
call bpf_map_update_elem
exit
