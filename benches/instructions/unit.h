/* unit(n): a guest reports n units of the work that instructions.py counts. It takes four instructions; step.c sees the registers. */
#define UNIT 0x756e697473706572

static inline void unit(long n) {
    long code = UNIT;
    __asm__ volatile("nop\n\txor %%eax, %%eax" : "+a"(code) : "D"(n) : "cc");
}
