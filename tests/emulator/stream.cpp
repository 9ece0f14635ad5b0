/* stream.cpp -- the streams of the emulated device. The first stream's work is done at once; or put off until the host
 * waits (CUEMU_LAZY in the environment, or cuemu_lazy(1)), so that a host that changes its memory too
 * early, or reads a result too early, gets wrong numbers; or noted down for a graph.
 *
 * A host waits in cudaStreamSynchronize, in cudaEventSynchronize for an event that has not come, and
 * in copies from or to pageable memory, before which the runtime waits for the stream.
 *
 * Another stream (of collectives) runs as soon as it has work, whatever the first stream has not come
 * to yet; with CUEMU_LATE not before something waits for it. What is not held back by events goes
 * wrong in one of the two, as CUEMU_DEAF=first and other show: that stream heeds no events. */
#include "cuemu.h"
#include <deque>
#include <map>
#include <memory>
#include <vector>

typedef std::vector<std::function<void()>> Work;
struct CUgraph_st { Work work; };
struct CUgraphExec_st { std::shared_ptr<Work> work; };
struct CUstream_st {
    std::deque<std::function<void()>> later;    /* work that was put off */
    long done;
    bool running;                               /* some of it */
    void run_until(long n)
    {
        if (running) return;
        running = true;
        for (; done < n; done++) {
            std::function<void()> work = later.front();
            later.pop_front();
            work();
        }
        running = false;
    }
    long end() const { return done + (long)later.size(); }
};
struct CUevent_st { CUstream_st *stream; long after; }; /* comes when so much work is done there */

namespace {
CUgraph_st *noting;                             /* what is launched goes there */
bool lazy = getenv("CUEMU_LAZY") != NULL;
bool no_graphs = getenv("CUEMU_NO_GRAPHS") != NULL;
bool late = getenv("CUEMU_LATE") != NULL;
CUstream_st first;
CUstream_st *stream_of(cudaStream_t s) { return s ? s : &first; }
long graphs, waits;
std::map<const char *, size_t> pinned;          /* of the host's memory */

void not_noted(const char *what)
{
    if (noting) cuemu::fail("%s while a graph is noted down", what);
}
bool is_pinned(const void *p, size_t bytes)
{
    auto i = pinned.upper_bound((const char *)p);
    return i != pinned.begin() && (--i, (const char *)p + bytes <= i->first + i->second);
}
/* CUEMU_REPORT: said at the end, beside the memory (cudart.cpp) */
struct Report {
    ~Report()
    {
        if (getenv("CUEMU_REPORT")) fprintf(stderr, "cuemu: %ld waits, %ld graphs\n", waits, graphs);
    }
} report;
} // namespace

namespace cuemu {
bool deferred() { return noting || (lazy && !first.running); }
void note(std::function<void()> work)
{
    if (noting) noting->work.push_back(work);
    else first.later.push_back(work);
}
void catch_up(const char *what)
{
    not_noted(what);
    first.run_until(first.end());
}
} // namespace cuemu

extern "C" {
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
    static int made;
    *s = made++ ? new CUstream_st() : &first;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    waits++;
    cuemu::catch_up("cudaStreamSynchronize");
    stream_of(s)->run_until(stream_of(s)->end());
    return cudaSuccess;
}

/* ---- graphs: work that is noted down */
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode)
{
    if (noting) cuemu::fail("a capture within a capture");
    noting = new CUgraph_st;
    return cudaSuccess;
}
/* CUEMU_NO_GRAPHS: as if something could not be noted down */
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *g)
{
    if (!noting) cuemu::fail("the end of no capture");
    *g = noting;
    noting = NULL;
    if (!no_graphs) return cudaSuccess;
    delete *g;
    *g = NULL;
    return cudaErrorStreamCaptureInvalidated;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *e, cudaGraph_t g, unsigned long long)
{
    *e = new CUgraphExec_st{ std::make_shared<Work>(g->work) };
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    delete g;
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t)
{
    std::shared_ptr<Work> work = e->work;
    not_noted("cudaGraphLaunch");
    graphs++;
    auto all = [work] { for (auto &w : *work) w(); };
    if (cuemu::deferred()) cuemu::note(all);
    else all();
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e)
{
    delete e;
    return cudaSuccess;
}

/* ---- events */
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
    *e = new CUevent_st{ &first, 0 };
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    not_noted("cudaEventRecord");
    *e = { stream_of(s), stream_of(s)->end() };
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
    const CUevent_st at = *e;
    CUstream_st *of = stream_of(s);
    static const char *const deaf = getenv("CUEMU_DEAF");
    not_noted("cudaStreamWaitEvent");
    if (of == at.stream) return cudaSuccess;
    if (deaf && !strcmp(deaf, of == &first ? "first" : "other")) return cudaSuccess;
    auto wait = [at] { at.stream->run_until(at.after); };
    if (of != &first) of->later.push_back(wait);
    else if (cuemu::deferred()) cuemu::note(wait);
    else wait();
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    not_noted("cudaEventSynchronize");
    waits += e->stream == &first && e->after > first.done;
    e->stream->run_until(e->after);
    return cudaSuccess;
}

/* ---- the host's memory, and copies */
cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned)
{
    *p = malloc(bytes ? bytes : 1);
    if (!*p) return cudaErrorMemoryAllocation;
    memset(*p, 0xff, bytes);
    pinned[(const char *)*p] = bytes;
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void *p)
{
    cuemu::catch_up("cudaFreeHost");
    if (p && !pinned.erase((const char *)p)) cuemu::fail("free of %p, which is not pinned", p);
    free(p);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind k,
                            cudaStream_t)
{
    if (k != cudaMemcpyDeviceToHost) cuemu::check_pointer("cudaMemcpyAsync", to);
    if (k != cudaMemcpyHostToDevice) cuemu::check_pointer("cudaMemcpyAsync", from);
    if (k != cudaMemcpyDeviceToDevice) {
        not_noted("a copy from or to the host");
        if (!is_pinned(k == cudaMemcpyHostToDevice ? from : to, bytes)) {
            waits++;
            cuemu::catch_up("a copy of pageable memory");
        }
    }
    auto copy = [=] {
        cuemu_access(1);
        memmove(to, from, bytes);
        cuemu_access(0);
    };
    if (cuemu::deferred() && (k == cudaMemcpyDeviceToDevice ||
                              is_pinned(k == cudaMemcpyHostToDevice ? from : to, bytes)))
        cuemu::note(copy);
    else copy();
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t)
{
    cuemu::check_pointer("cudaMemsetAsync", p);
    auto set = [=] {
        const size_t large = 16 << 20, skip = cuemu::sampled && bytes > large ? bytes - 4096 : 0;
        cuemu_access(1);
        memset((char *)p + skip, value, bytes - skip);
        cuemu_access(0);
    };
    if (cuemu::deferred()) cuemu::note(set);
    else set();
    return cudaSuccess;
}

/* ---- for tests */
void cuemu_other(cudaStream_t s, void (*f)(const void *), const void *arg, size_t bytes)
{
    std::vector<char> copy((const char *)arg, (const char *)arg + bytes);
    if (stream_of(s) == &first) cuemu::fail("a collective on the first stream");
    s->later.push_back([f, copy] { f(copy.data()); });
    if (!late) s->run_until(s->end());
}
long cuemu_graphs(void) { return graphs; }
long cuemu_waits(void) { return waits; }
void cuemu_lazy(int on)
{
    cuemu::catch_up("cuemu_lazy");
    lazy = on;
}
int cuemu_note(void (*f)(const void *), const void *arg, size_t bytes)
{
    if (!cuemu::deferred()) return 0;
    std::vector<char> copy((const char *)arg, (const char *)arg + bytes);
    cuemu::note([f, copy] { f(copy.data()); });
    return 1;
}
} // extern "C"
