/* The switch of switch.v, with four ports. */
#include "Vswitch.h"
#include "belljar_rtl.h"

int main(int argc, char **argv) {
    return bjc_rtl_main<Vswitch, 4>(argc, argv);
}
