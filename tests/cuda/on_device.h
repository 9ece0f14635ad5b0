/* on_device.h -- included first in the tests of this folder when they are built for a GPU (make
 * check-gpu): stands in for the emulator. What is another schedule there is the same work once more
 * here, which must give the same bits all the same. */
#ifndef ON_DEVICE_H
#define ON_DEVICE_H
#define ON_DEVICE
void cuda_start(int device);
__attribute__((constructor)) static void start_device(void) { cuda_start(0); }
__attribute__((unused)) static void cuemu_schedule(int s) { (void)s; }
__attribute__((unused)) static void cuemu_protect(int on) { (void)on; }
__attribute__((unused)) static int cuemu_damaged(void) { return 0; }
__attribute__((unused)) static long cuemu_graphs(void) { return 0; }
__attribute__((unused)) static long cuemu_waits(void) { return 0; }
__attribute__((unused)) static void cuemu_lazy(int on) { (void)on; }
#endif
