/* For GCC, whose assembler puts symbol values into the instructions, too. */
#define section(name) __attribute__((section(name), used))

struct record {
	unsigned int type, key_size, value_size, max_entries, flags;
};

struct record section("maps") first = { 2, 4, 8, 10, 0 };
struct record section("maps") second = { 1, 4, 8, 10, 0 };

extern void *lookup(void *map, void *key) __attribute__((kernel_helper(1)));
extern long for_each(void *map, void *callback, void *ctx, long flags) __attribute__((kernel_helper(164)));

long before[3] = { 1, 2, 3 };
long values[10] = { 1, 2 };

__attribute__((noinline)) int square(int x)
{
	return x * x + before[0];
}

__attribute__((noinline)) int shifted(int x)
{
	return x + values[2];
}

int step(void *map)
{
	return 0;
}

section("xdp") int mixed(void *ctx)
{
	unsigned int key = 0;

	for_each(&second, step, 0, 0);
	lookup(&first, &key);
	return square(key) + shifted(4);
}
