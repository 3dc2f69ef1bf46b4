/* All code in .text: the function that nobody calls is the program. */
__attribute__((noinline)) int triple(int x)
{
	return x * 3;
}

int entry(void *ctx)
{
	return triple(*(int *)ctx);
}
