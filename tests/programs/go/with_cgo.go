//go:build cgo

package main

/*
#cgo LDFLAGS: -pthread
#include <pthread.h>

static void *add(void *last) {
	long sum = 0;
	for (long n = 1; n <= (long)last; n++)
		sum += n;
	return (void *)sum;
}

static long sum_in_thread(long last) {
	pthread_t thread;
	void *sum = 0;
	if (pthread_create(&thread, 0, add, (void *)last) != 0)
		return -1;
	pthread_join(thread, &sum);
	return (long)sum;
}
*/
import "C"

// The sum of the first numbers, added up by C in a thread of its own.
func sum(last int) int {
	return int(C.sum_in_thread(C.long(last)))
}
