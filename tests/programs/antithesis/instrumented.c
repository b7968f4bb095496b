// Counted by -fsanitize-coverage: each sign among the arguments reaches a function of its own.
#include <stdio.h>
#include <stdlib.h>

static __attribute__((noinline)) void positive(int number)
{
	printf("+%d\n", number);
}

static __attribute__((noinline)) void negative(int number)
{
	printf("%d\n", number);
}

static __attribute__((noinline)) void zero(void)
{
	puts("0");
}

int main(int argc, char **argv)
{
	for (int n = 1; n < argc; n++) {
		int number = atoi(argv[n]);
		if (number > 0)
			positive(number);
		else if (number < 0)
			negative(number);
		else
			zero();
	}
	return 0;
}
